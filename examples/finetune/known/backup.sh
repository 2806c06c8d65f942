#!/bin/sh
# Copies a folder to one named by today's date, and keeps the last seven.
set -eu

source=${1:?usage: backup.sh FOLDER}
target="$HOME/backups/$(date +%Y-%m-%d)"

mkdir -p "$target"
cp -R "$source"/. "$target"

cd "$HOME/backups"
ls -1 | sort -r | tail -n +8 | while read -r old; do
    echo "removing $old"
    rm -rf -- "$old"
done
