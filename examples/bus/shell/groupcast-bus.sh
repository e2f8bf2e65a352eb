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

# Makes `bus_word` of a tag or a domain: in quotes if it is empty or has blanks. Quotes that are there stay as they are.
bus_quote() {
    bus_word=$1
    if [[ $1 != *\"* && (-z $1 || $1 == *[[:space:]]*) ]]; then
        bus_word="\"${1//\\/\\\\}\""
    fi
    bus_word=${bus_word//$'\n'/\\n} bus_word=${bus_word//$'\r'/\\r} bus_word=${bus_word//$'\t'/\\t}
}

# Sends a text: bus_send TAG DOMAIN TEXT.
bus_send() {
    local tag
    bus_quote "$1"
    tag=$bus_word
    bus_quote "$2"
    printf 'msg %s %s %d\n%s\n' "$tag" "$bus_word" "${#3}" "$3" >&"$bus_socket" && bus_answer
}

# Splits a line into `bus_words`. A word that is all in quotes stands there without them.
bus_split() {
    local line=$1 word any='^(([^" ]|"([^"\\]|\\.)*")+)( |$)' quoted='^"(([^"\\]|\\.)*)"$'
    bus_words=()
    while [[ $line =~ $any ]]; do
        word=${BASH_REMATCH[1]} line=${line:${#BASH_REMATCH[0]}}
        if [[ $word =~ $quoted ]]; then
            printf -v word %b "${BASH_REMATCH[1]//\\\"/\\x22}"
        fi
        bus_words+=("$word")
    done
}

# Waits for a message: `bus_tag`, `bus_domain`, `bus_syntax` (empty for a list in one's own) and `bus_data` are about it.
bus_receive() {
    while ((${#bus_waiting[@]} == 0)); do
        bus_read || return
    done
    bus_split "${bus_waiting[0]}"
    bus_data=${bus_waiting[1]}
    bus_waiting=("${bus_waiting[@]:2}")
    bus_tag=${bus_words[1]} bus_domain=${bus_words[2]} bus_syntax=
    ((${#bus_words[@]} > 4)) && bus_syntax=${bus_words[-2]}
    return 0
}

# Leaves.
bus_close() {
    bus_command quit
    exec {bus_socket}>&-
}
