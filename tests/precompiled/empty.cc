// Empty: a precompiled header needs a target with a source (tests/CMakeLists.txt).
