//! UDP multicast on Linux: batching, offload, sealing, event loop.
