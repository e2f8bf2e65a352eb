//! Mechanisms that several protocols share. They know no protocol and no wire format.
