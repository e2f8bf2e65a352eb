//! Sans-IO client protocol and process groups of groupcast.
