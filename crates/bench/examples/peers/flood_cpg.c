/* A client of Corosync that sends to a process group and receives from it; the counterpart of bench/clients.rs.
 *
 * flood_cpg HOST HOSTS SIZE INTERVAL_NS: joins, prints "ready" once all hosts are in the group, reads "FROM UNTIL"
 * (nanoseconds of the monotonic clock), sends until UNTIL (as fast as Corosync takes messages, if INTERVAL_NS is 0) and
 * prints what it received as one JSON object, in the form of bench/tally.rs. One thread sends, one receives. */
#include <corosync/cpg.h>
#include <endian.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STAMP = 20, BLOCK = 256, HOSTS_MAX = 64, DIGITS = 10, BUCKETS = 64 << DIGITS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t joined = PTHREAD_COND_INITIALIZER;
static size_t members;
static uint64_t from = UINT64_MAX, until = UINT64_MAX;
static uint64_t bytes, messages, holes, hash, count, next[HOSTS_MAX + 1];
static uint64_t *notes;
static size_t notes_len, notes_room;
static uint64_t latencies[BUCKETS];

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what, int error) {
    fprintf(stderr, "cannot %s: error %d\n", what, error);
    exit(1);
}

/* A bucket holds values that agree in their first DIGITS bits. */
static size_t bucket(uint64_t value) {
    unsigned shift = 0;
    while (value >> (DIGITS + 1 + shift)) shift++;
    return ((size_t)shift << DIGITS) + (size_t)(value >> shift);
}

static uint64_t value_of(size_t index) {
    size_t shift = index >> DIGITS;
    if (shift == 0) return index;
    shift--;
    return (uint64_t)(index - (shift << DIGITS)) << shift;
}

static void note(uint32_t sender, uint64_t index) {
    const uint64_t values[3] = {hash, sender, index};
    hash = 14695981039346656037u;
    for (int i = 0; i < 3; i++)
        for (int byte = 0; byte < 8; byte++) {
            hash ^= (values[i] >> (8 * byte)) & 0xff;
            hash *= 1099511628211u;
        }
    if (++count % BLOCK) return;
    if (notes_len == notes_room) {
        notes_room = notes_room ? 2 * notes_room : 1024;
        notes = realloc(notes, notes_room * sizeof *notes);
        if (!notes) fail("keep notes", 0);
    }
    notes[notes_len++] = hash;
}

static void deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid, void *message,
                    size_t len) {
    (void)handle, (void)group, (void)node, (void)pid;
    uint32_t sender;
    uint64_t index, sent, at = now();
    if (len < STAMP) return;
    memcpy(&sender, message, 4);
    memcpy(&index, (char *)message + 4, 8);
    memcpy(&sent, (char *)message + 12, 8);
    sender = be32toh(sender), index = be64toh(index), sent = be64toh(sent);
    if (sender > HOSTS_MAX) return;
    pthread_mutex_lock(&lock);
    note(sender, index);
    if (index != next[sender]) holes++;
    next[sender] = index + 1;
    if (at >= from && at < until) {
        bytes += len, messages++;
        latencies[bucket(at > sent ? at - sent : 1)]++;
    }
    pthread_mutex_unlock(&lock);
}

static void change(cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *list, size_t len,
                   const struct cpg_address *left, size_t left_len, const struct cpg_address *new, size_t new_len) {
    (void)handle, (void)group, (void)list, (void)left, (void)left_len, (void)new, (void)new_len;
    pthread_mutex_lock(&lock);
    members = len;
    pthread_cond_signal(&joined);
    pthread_mutex_unlock(&lock);
}

static void *receive(void *handle) {
    cpg_dispatch(*(cpg_handle_t *)handle, CS_DISPATCH_BLOCKING);
    return NULL;
}

static void print(void) {
    printf("{\"bytes\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"holes\":%" PRIu64 ",\"reformations\":0,\"next\":{},", bytes,
           messages, holes);
    printf("\"order\":{\"hash\":%" PRIu64 ",\"count\":%" PRIu64 ",\"notes\":[", hash, count);
    for (size_t i = 0; i < notes_len; i++) printf("%s%" PRIu64, i ? "," : "", notes[i]);
    printf("]},\"latencies\":[");
    const char *comma = "";
    for (size_t i = 0; i < BUCKETS; i++)
        if (latencies[i]) {
            printf("%s[%" PRIu64 ",%" PRIu64 "]", comma, value_of(i), latencies[i]);
            comma = ",";
        }
    printf("]}\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: flood_cpg HOST HOSTS SIZE INTERVAL_NS\n"), 2;
    uint32_t host = (uint32_t)atoi(argv[1]);
    size_t hosts = (size_t)atoi(argv[2]), size = (size_t)atoi(argv[3]);
    uint64_t interval = strtoull(argv[4], NULL, 10);
    char *payload = malloc(size);
    if (!payload || size < STAMP) fail("make a message", 0);
    memset(payload, '.', size);

    cpg_callbacks_t callbacks = {.cpg_deliver_fn = deliver, .cpg_confchg_fn = change};
    cpg_handle_t handle;
    struct cpg_name group = {.length = 5, .value = "flood"};
    cs_error_t error = CS_OK;
    for (int attempt = 0; attempt < 300; attempt++) {
        error = cpg_initialize(&handle, &callbacks);
        if (error == CS_OK) break;
        usleep(100000);
    }
    if (error != CS_OK) fail("reach corosync", (int)error);
    for (int attempt = 0; attempt < 300; attempt++) {
        error = cpg_join(handle, &group);
        if (error != CS_ERR_TRY_AGAIN) break;
        usleep(100000);
    }
    if (error != CS_OK) fail("join", (int)error);
    pthread_t receiver;
    if (pthread_create(&receiver, NULL, receive, &handle)) fail("start a thread", 0);
    pthread_mutex_lock(&lock);
    while (members < hosts) pthread_cond_wait(&joined, &lock);
    pthread_mutex_unlock(&lock);

    printf("ready\n");
    fflush(stdout);
    uint64_t opens, ends;
    if (scanf("%" SCNu64 " %" SCNu64, &opens, &ends) != 2) fail("read the window", 0);
    pthread_mutex_lock(&lock);
    from = opens, until = ends;
    pthread_mutex_unlock(&lock);

    uint64_t due = now() + interval * host / hosts;
    for (uint64_t index = 0;; index++, due += interval) {
        uint64_t at = now();
        if (interval && at < due) {
            uint64_t end = due < ends ? due : ends;
            struct timespec pause = {.tv_sec = (time_t)((end - at) / 1000000000u),
                                     .tv_nsec = (long)((end - at) % 1000000000u)};
            if (at < end) nanosleep(&pause, NULL);
            at = now();
        }
        if (at >= ends) break;
        uint32_t sender = htobe32(host);
        uint64_t number = htobe64(index), sent = htobe64(interval ? due : at);
        memcpy(payload, &sender, 4);
        memcpy(payload + 4, &number, 8);
        memcpy(payload + 12, &sent, 8);
        struct iovec part = {.iov_base = payload, .iov_len = size};
        do {
            error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
            if (error == CS_ERR_TRY_AGAIN) usleep(50);
        } while (error == CS_ERR_TRY_AGAIN && now() < ends);
        if (error != CS_OK && error != CS_ERR_TRY_AGAIN) fail("send", (int)error);
        if (error != CS_OK) break;
    }
    pthread_mutex_lock(&lock);
    print();
    _exit(0);
}
