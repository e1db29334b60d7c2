#!/bin/bash
# The scripts examples/*/run source this file. Each script gets a temporary folder, its own runtime directory and, for
# nginx, a free port. When the script ends, even by Ctrl-C, it ends its children and removes its files.
#
# If HOLDFAST_NGINX is set, it is the path of the nginx to use instead of the system's.

set -euo pipefail
cd "$(dirname "$0")"
root=$(realpath ../..)

refuse() {
  echo "$1" >&2
  exit "${2-2}"
}

# check_numbers USAGE MAX [ARGUMENT...] fails unless there are at most MAX arguments, and all are numbers.
check_numbers() {
  local usage=$1 max=$2 number
  shift 2
  for number; do
    [[ $number =~ ^[1-9][0-9]{0,5}$ ]] || refuse "run: expected a number from 1 to 999999, got \"$number\""
  done
  [ $# -le "$max" ] || refuse "usage: run $usage"
}

# need PROGRAM... fails if one of the programs is missing.
need() {
  local program
  for program; do
    command -v "$program" >/dev/null || refuse "run: $program is not installed; scripts/setup test installs it" 1
  done
}

# Makes the folder and the runtime directory. Call this function before the functions below.
begin() {
  need luajit
  export LUA_PATH="$root/lua/?.lua;;"
  if [ -z "${HOLDFAST_LIB-}" ] && [ -e "$root/build/libholdfast.so" ]; then
    export HOLDFAST_LIB=$root/build/libholdfast.so
  fi
  luajit -e 'require "resty.shdict"' 2>/dev/null || refuse 'run: luajit cannot load holdfast; build it with make' 1
  local base=/dev/shm
  [ ! -d "${HOLDFAST_DIR-}" ] || base=$HOLDFAST_DIR
  unset HOLDFAST_DIR
  folder=
  trap clean_up EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  folder=$(mktemp -d -t holdfast-example.XXXXXX)
  HOLDFAST_DIR=$(mktemp -d "$base/holdfast-example.XXXXXX")
  export HOLDFAST_DIR
}

clean_up() {
  local children
  children=$(jobs -rp)
  # shellcheck disable=SC2086
  [ -z "$children" ] || kill $children 2>/dev/null || true
  wait
  rm -rf -- ${folder:+"$folder"} ${HOLDFAST_DIR:+"$HOLDFAST_DIR"}
} 2>/dev/null

give_up() {
  echo "run: $1" >&2
  find "$folder" -name '*.log' -size +0 -exec tail -n 5 {} + >&2
  exit 1
}

# Runs a command until it succeeds, for at most thirty seconds.
await() {
  local tries=600
  until "$@" >/dev/null 2>&1; do
    [ $((tries -= 1)) -gt 0 ] || return 1
    sleep 0.05
  done
}

is_open() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Starts nginx with ./nginx.conf, to which it adds the lines that depend on this machine. Sets nginx (the pid) and port.
start_nginx() {
  local found load_modules user='' paths='' path
  found=$("$root/scripts/find-nginx") || exit 1
  load_modules=${found#*$'\n'}
  [ "$load_modules" != "$found" ] || load_modules=
  [ "$(id -u)" -ne 0 ] || user='user root;'
  for path in client_body proxy fastcgi uwsgi scgi; do paths+=" ${path}_temp_path $path;"; done
  port=$((20000 + RANDOM % 12000))
  while is_open $port; do port=$((port + 1)); done
  {
    echo "$load_modules $user pid nginx.pid; error_log error.log warn; env HOLDFAST_DIR; env HOLDFAST_LIB;"
    sed -e "s|^http {|& log_format path \$uri; access_log access path;$paths|" -e "s|127.0.0.1:8080|127.0.0.1:$port|" \
      -e "s|\"\$prefix/|\"$PWD/lua/?.lua;$root/examples/nginx/lua/?.lua;$root/|" nginx.conf
  } >"$folder/nginx.conf"
  "${found%%$'\n'*}" -p "$folder/" -c "$folder/nginx.conf" -g 'daemon off;' 2>"$folder/nginx.log" &
  nginx=$!
  await is_open $port || give_up "nginx does not start"
}

# Stops nginx after it has answered all requests, so that the log is complete.
stop_nginx() {
  kill -QUIT "$nginx"
  wait "$nginx" || give_up "nginx has failed"
}

# Prints the body of the answer to a GET request.
get() {
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
  sed '1,/^\r$/d' <&3
} 3<>"/dev/tcp/127.0.0.1/$port"

ask_redis() { redis-cli -s "$folder/redis.sock" "$@"; }

# Starts Redis with this many articles.
start_redis() {
  local i
  redis-server --port 0 --unixsocket "$folder/redis.sock" --save '' --dir "$folder" --daemonize no \
    >"$folder/redis.log" &
  await ask_redis ping || give_up "Redis does not start"
  for ((i = 0; i < $1; i++)); do
    echo "SET article:$i 'This is article $i.'"
  done | ask_redis >/dev/null
}

# measure LOCATION SECONDS ARTICLES CONNECTIONS lets wrk read the articles at the location. Sets row (requests, rate,
# median and 99th percentile, articles read, calls to Redis), articles_read and calls. Stops nginx.
measure() {
  local wrk requests rate median slowest failures
  ask_redis config resetstat >/dev/null
  rm -f "$folder/access"
  start_nginx
  wrk -t 2 -c "$4" -d "${2}s" --timeout 30s -s "$root/examples/nginx/load.lua" "http://127.0.0.1:$port/$1/" -- "$3" \
    >"$folder/wrk.log" &
  wrk=$!
  wait $wrk || give_up "wrk has failed"
  read -r _ requests rate median slowest failures < <(grep ^figures "$folder/wrk.log") || give_up "wrk printed no result"
  [ "$failures" -eq 0 ] || give_up "$failures requests have failed"
  stop_nginx
  articles_read=$(sort -u "$folder/access" | wc -l)
  calls=$(ask_redis info commandstats | sed -n 's/^cmdstat_get:calls=\([0-9]*\).*/\1/p')
  # shellcheck disable=SC2034
  row=("$requests" "$rate" "$median" "$slowest" "$articles_read" "${calls:=0}")
}
