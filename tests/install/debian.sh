# shellcheck shell=bash
# Sets up a root directory with Debian 12. The tests in this folder source this file.

# These functions print the names of this machine's apt sources that contain Debian, and its network settings.
debian_sources() {
  find /etc/apt/sources.list /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) -size +0 \
    -exec grep -lE '^[^#]*/debian' {} + 2>/dev/null || true
}
ways_to_get_there() {
  apt-config dump --no-empty --format '%F "%v";%n' Acquire | grep -E '^Acquire::(http|https|Check-[A-Za-z-]*)\>' || true
}

# make_debian ROOT CONFIGURATION OPTION...: needs root, mmdebstrap, and a machine that can download Debian.
make_debian() {
  local root=$1 configuration=$2 sources
  shift 2
  mapfile -t sources < <(debian_sources)
  ways_to_get_there >"$configuration"
  mmdebstrap --quiet --dpkgopt=force-unsafe-io --aptopt="$configuration" "$@" bookworm "$root" "${sources[@]}"
}
