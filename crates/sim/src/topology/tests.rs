//! Laws that a topology keeps.
