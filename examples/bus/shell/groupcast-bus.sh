# A client of groupcast's message bus for bash, over a plain socket (docs/bus.md); to be sourced. It needs no other
# program. Messages are text as it comes: bash cannot hold NUL in a variable.
#
#   bus_connect 127.0.0.1:4812; bus_command 'accept * room'; bus_send tag room '(a list)'; bus_receive; echo "$bus_data"

# Lengths count bytes.
LC_ALL=C

bus_waiting=()

# Connects to IP:PORT; `bus_name` is the private name.
bus_connect() {
    exec {bus_socket}<>"/dev/tcp/${1%:*}/${1##*:}" || return
    local word version
    read -r word version bus_name <&"$bus_socket"
    [[ $word == bus && $version == 1 ]]
}

# Reads a line. A delivery is kept in `bus_waiting`, its head and its bytes; a line of a reply is in `bus_line`.
bus_read() {
    local data=
    IFS= read -r bus_line <&"$bus_socket" || return
    case $bus_line in
    'msg '*)
        # The bytes, and the end of line behind them.
        IFS= read -r -N $((${bus_line##* } + 1)) data <&"$bus_socket" || return
        bus_waiting+=("$bus_line" "${data%?}")
        bus_line=
        ;;
    'closed '*) return 1 ;;
    ok | 'ok '* | 'error '* | ' '*) ;;
    *) bus_line= ;;
    esac
}

# Waits for a reply; what stands behind `ok` is in `bus_reply`.
bus_answer() {
    bus_line=
    while [[ -z $bus_line ]]; do
        bus_read || return
    done
    bus_reply=${bus_line#ok}
    bus_reply=${bus_reply# }
    [[ $bus_line == ok || $bus_line == 'ok '* ]]
}

# Says a command of one line.
bus_command() {
    printf '%s\n' "$1" >&"$bus_socket" && bus_answer
}

# Sends a text: bus_send TAG DOMAIN TEXT. A tag or a domain with blanks is written in quotes.
bus_send() {
    printf 'msg %s %s %d\n%s\n' "$1" "$2" "${#3}" "$3" >&"$bus_socket" && bus_answer
}

# Waits for a message: `bus_tag`, `bus_domain`, `bus_syntax` (empty for a list in one's own) and `bus_data` are about it.
bus_receive() {
    while ((${#bus_waiting[@]} == 0)); do
        bus_read || return
    done
    local head
    read -r -a head <<<"${bus_waiting[0]}"
    bus_data=${bus_waiting[1]}
    bus_waiting=("${bus_waiting[@]:2}")
    bus_tag=${head[1]} bus_domain=${head[2]} bus_syntax=
    ((${#head[@]} > 4)) && bus_syntax=${head[-2]}
    return 0
}

# Leaves.
bus_close() {
    bus_command quit
    exec {bus_socket}>&-
}
