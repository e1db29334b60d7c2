// This file is empty, because a precompiled header needs a target with a source (tests/CMakeLists.txt).
