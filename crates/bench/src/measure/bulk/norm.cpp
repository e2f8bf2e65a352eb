/* A file from one host to several by NORM (RFC 5740), for `groupcast bench bulk`. C++ because normApi.h asks for it.
 *
 *   norm-file send GROUP PORT DEVICE ID FILE FIRST LAST   to the receivers with the ids FIRST to LAST, until each has it
 *   norm-file recv GROUP PORT DEVICE ID DIRECTORY NAME    until it is ended
 *
 * Settings: congestion control, segments of 1400 bytes, blocks of 64 with 16 parity segments on demand, buffers of 64
 * MiB, socket buffers of 8 MiB, a first estimate of the round trip of a millisecond.
 */
#include <normApi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 64 << 20, SOCKET = 8 << 20, SEGMENT = 1400, BLOCK = 64, PARITY = 16 };

static int fail(const char *what) {
    fprintf(stderr, "cannot %s\n", what);
    return 1;
}

static int send_file(NormInstanceHandle instance, NormSessionHandle session, char **argv) {
    NormSetCongestionControl(session, true, true);
    NormSetGrttEstimate(session, 0.001);
    NormSetTxRate(session, 100e6);
    NormSetTxCacheBounds(session, 2.0e9, 1, 4096);
    for (int id = atoi(argv[7]); id <= atoi(argv[8]); id++)
        NormAddAckingNode(session, (NormNodeId)id);
    if (!NormStartSender(session, 1, BUFFER, SEGMENT, BLOCK, PARITY, 0))
        return fail("start the sender");
    NormSetTxSocketBuffer(session, SOCKET);
    NormObjectHandle file = NormFileEnqueue(session, argv[6], NULL, 0);
    if (file == NORM_OBJECT_INVALID)
        return fail("enqueue the file");
    if (!NormSetWatermark(session, file, false))
        return fail("ask for acknowledgements");
    NormEvent event;
    while (NormGetNextEvent(instance, &event, true)) {
        if (event.type != NORM_TX_WATERMARK_COMPLETED)
            continue;
        if (NormGetAckingStatus(session, NORM_NODE_ANY) == NORM_ACK_SUCCESS)
            return 0;
        /* Somebody has not acknowledged in time: ask on. */
        if (!NormSetWatermark(session, file, true))
            return fail("ask again for acknowledgements");
    }
    return fail("wait for events");
}

static int receive_file(NormInstanceHandle instance, NormSessionHandle session, char **argv) {
    char place[4096];
    snprintf(place, sizeof place, "%s/%s", argv[6], argv[7]);
    char cache[4096];
    snprintf(cache, sizeof cache, "%s/", argv[6]);
    if (!NormSetCacheDirectory(instance, cache))
        return fail("use the directory");
    NormSetRxCacheLimit(session, 4096);
    if (!NormStartReceiver(session, BUFFER))
        return fail("start the receiver");
    NormSetRxSocketBuffer(session, SOCKET);
    NormEvent event;
    while (NormGetNextEvent(instance, &event, true)) {
        if (event.type == NORM_RX_OBJECT_COMPLETED && !NormFileRename(event.object, place))
            return fail("put the file in place");
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 8 || (strcmp(argv[1], "send") == 0 && argc < 9))
        return fail("work without arguments: see the head of this file");
    NormInstanceHandle instance = NormCreateInstance(false);
    NormSessionHandle session =
        NormCreateSession(instance, argv[2], (UINT16)atoi(argv[3]), (NormNodeId)atoi(argv[5]));
    if (session == NORM_SESSION_INVALID)
        return fail("make a session");
    NormSetMulticastInterface(session, argv[4]);
    return strcmp(argv[1], "send") == 0 ? send_file(instance, session, argv)
                                        : receive_file(instance, session, argv);
}
