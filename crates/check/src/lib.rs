//! The judge: histories in, violations out.
