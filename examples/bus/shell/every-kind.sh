#!/bin/bash
# Sends every kind of item, and gets it from each of COUNT programs: every-kind.sh ADDRESS COUNT

. "${BASH_SOURCE%/*}/groupcast-bus.sh"

everything='(plus (|odd ) one| :key ()) -12345678901234567890123 2.5 "a \"quoted\" \\ text
in lines ü" #u8(0 255 10) #\a #\Space #\( '\''x #(1 2) (1 2 . end))'

bus_connect "$1" && bus_command 'accept * kinds ring' || exit
names=()
while ((${#names[@]} != $2)); do
    bus_command 'ping * kinds' || exit
    read -r -a names <<<"$bus_reply"
    sleep 0.05
done
bus_send shell kinds "$everything" || exit
for ((got = 0; got < $2; got++)); do
    bus_receive || exit
    if [[ $bus_data != "$everything" ]]; then
        echo "from $bus_tag: $bus_data" >&2
        exit 1
    fi
    echo "equal $bus_tag"
done
bus_close
