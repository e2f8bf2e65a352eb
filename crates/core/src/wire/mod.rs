//! Wire primitives: bounds-checked cursors, and the prefix that every datagram begins with.
//!
//! All integers are big-endian. Decoding any bytes never panics and never allocates more than the
//! bytes present.

mod cursor;
mod prefix;

pub use cursor::{DecodeError, Reader, Writer};
pub use prefix::{ClusterTag, MAGIC, PREFIX_LEN, Prefix, PrefixError, VERSION, Version};
