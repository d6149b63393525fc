#!/bin/sh
# A Redis Cluster on one machine: three masters and a replica of each, as six processes side by side. For the profile
# `cluster` of docker-compose.yml; it needs nothing but redis-server and redis-cli.
#
# Nodes remember the addresses of the others, and a container may get another one when it starts again. So all six are in
# one container, and know each other as 127.0.0.1. Clients are sent to REDIS_NAME.
#
# There are three users: postrider, with REDIS_PASSWORD, may not administer; replicas and this script have secrets that
# change at each start. A node that ends is started again; its replica takes over if that lasts longer than 5 s.
set -eu
umask 077

: "${REDIS_PASSWORD:?is not set}" "${REDIS_NAME:?is not set}"
folder=${REDIS_FOLDER:-/data}
ports=${REDIS_PORTS:-7001 7002 7003 7004 7005 7006}
server=${REDIS_SERVER:-redis-server}
cli=${REDIS_CLI:-redis-cli}
first=${ports%% *}
secret=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
marker=$folder/is-cluster

rm -f "$folder/stopping" "$folder"/*/kept
# half a cluster was never used
[ -e "$marker" ] || for port in $ports; do rm -rf "${folder:?}/$port"; done

# In a file, since everybody sees the arguments of a process. Nobody can be `default`, but a server that reads its
# append-only file does so with its rights, and without them it would leave out whatever a script wrote.
cat > "$folder/users.acl" <<END
user default off ~* &* +@all
user postrider on >$REDIS_PASSWORD ~* &* +@all -@admin -@dangerous +info
user replica on >$secret +psync +replconf +ping
user script on >$secret +cluster +info +ping
END
unset REDIS_PASSWORD

for port in $ports; do
  mkdir -p "$folder/$port"
  cat > "$folder/$port/redis.conf" <<END
port $port
bind ${REDIS_BIND:-* -::*}
dir $folder/$port
pidfile $folder/$port/redis.pid
aclfile $folder/users.acl
masteruser replica
masterauth $secret
cluster-enabled yes
cluster-node-timeout 5000
cluster-announce-ip 127.0.0.1
cluster-announce-hostname $REDIS_NAME
cluster-preferred-endpoint-type hostname
repl-diskless-sync-delay 0
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
END
done

keep() {
  : > "$folder/$1/kept"
  while [ ! -e "$folder/stopping" ]; do
    "$server" "$folder/$1/redis.conf" || true
    sleep 1
  done
  rm "$folder/$1/kept"
}

# Each is looked for on its own: `ls` of all of them fails as soon as one goes away while it looks.
is_any_kept() {
  for port in $ports; do
    [ ! -e "$folder/$port/kept" ] || return 0
  done
  return 1
}

# A node is asked again and again: one that writes its first copy of the data refuses to end, and one that starts has not
# told its pid yet.
stop() {
  trap '' TERM INT
  : > "$folder/stopping"
  while is_any_kept; do
    for port in $ports; do kill "$(cat "$folder/$port/redis.pid")" 2> /dev/null || true; done
    sleep 0.2
  done
}

ask() {
  node=$1
  shift
  REDISCLI_AUTH=$secret "$cli" --no-auth-warning --user script -h 127.0.0.1 -p "$node" "$@"
}

make_cluster() {
  for port in $ports; do
    until ask "$port" ping 2> /dev/null | grep -q PONG; do sleep 0.2; done
  done
  nodes=
  for port in $ports; do nodes="$nodes 127.0.0.1:$port"; done
  # shellcheck disable=SC2086 # one argument for each node
  ask "$first" --cluster create $nodes --cluster-replicas 1 --cluster-yes && : > "$marker"
}

trap 'stop; exit 0' TERM INT
for port in $ports; do keep "$port" & done
if [ ! -e "$marker" ] && ! make_cluster; then
  stop
  exit 1
fi
wait
