/* Sends what is typed to a domain, and prints what is said there, this program's lines
 * too: loop-back is on at first.
 *
 *   whisper ADDRESS DOMAIN NAME
 *
 * A line is sent as the list (say "NAME" "LINE"). Where the connection breaks, it is made again.
 */
#include <groupcast_bus.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static gcb_error error;

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, error.text);
    return 1;
}

/* Sends a line. */
static gcb_code say(gcb_bus bus, const char *domain, const char *name, const char *line)
{
    gcb_builder builder;
    gcb_list list;
    gcb_item root;
    gcb_build(&builder, NULL);
    gcb_put_open(builder, NULL);
    gcb_put_symbol(builder, "say", NULL);
    gcb_put_string(builder, name, NULL);
    gcb_put_string(builder, line, NULL); /* for text that is no UTF-8, gcb_finish has the error */
    gcb_put_close(builder, NULL);
    gcb_code code = gcb_finish(builder, &list, &error);
    if (code != GCB_OK)
        return code;
    gcb_root(list, &root, NULL);
    code = gcb_send(bus, "say", domain, root, &error);
    gcb_list_free(list, NULL);
    return code;
}

/* Prints a message, if it is as ours are. */
static void show(gcb_message message)
{
    gcb_list list;
    gcb_item at, name, text;
    gcb_bytes who, what;
    if (gcb_message_list(message, &list, NULL) != GCB_OK)
        return;
    /* An error leaves a null item, which the next call refuses: only the last ones need a look. */
    gcb_root(list, &at, NULL);
    gcb_rest(at, &at, NULL);
    gcb_first(at, &name, NULL);
    gcb_rest(at, &at, NULL);
    gcb_first(at, &text, NULL);
    if (gcb_text(name, &who, NULL) == GCB_OK && gcb_text(text, &what, NULL) == GCB_OK)
        printf("%s: %s\n", who.data, what.data);
    gcb_list_free(list, NULL);
}

/* Shows all that has come. */
static gcb_code receive(gcb_bus bus)
{
    gcb_message message;
    gcb_code code;
    while ((code = gcb_receive(bus, 0, &message, &error)) == GCB_OK) {
        show(message);
        gcb_message_free(message, NULL);
    }
    fflush(stdout);
    return code;
}

int main(int count, char **words)
{
    char line[4096];
    gcb_bus bus;
    if (count != 4) {
        fprintf(stderr, "usage: whisper ADDRESS DOMAIN NAME\n");
        return 2;
    }
    setvbuf(stdin, NULL, _IONBF, 0); /* poll does not see what stdio has read ahead */
    if (gcb_connect(words[1], 5000, &bus, &error) != GCB_OK)
        return fail("cannot connect");
    if (gcb_accept(bus, "say", words[2], &error) != GCB_OK)
        return fail("cannot accept");
    for (;;) {
        gcb_code code = receive(bus);
        struct pollfd ready[2] = {{0, POLLIN, 0}, {-1, POLLIN, 0}};
        if (code == GCB_CONNECTION || code == GCB_CLOSED) {
            fprintf(stderr, "%s; connecting again\n", error.text);
            if (gcb_reconnect(bus, -1, &error) != GCB_OK)
                return fail("cannot connect again");
            continue;
        }
        gcb_fd(bus, &ready[1].fd, NULL);
        poll(ready, 2, -1);
        if (!(ready[0].revents & (POLLIN | POLLHUP)))
            continue;
        if (!fgets(line, sizeof line, stdin))
            break;
        line[strcspn(line, "\n")] = '\0';
        if (say(bus, words[2], words[3], line) != GCB_OK)
            fprintf(stderr, "not sent: %s\n", error.text);
    }
    receive(bus);
    return gcb_close(bus, 5000, &error) == GCB_OK ? 0 : fail("cannot leave");
}
