//! Round trips and every kind of error.
