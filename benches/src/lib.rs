//! Benchmarks of pipezero; each file opens with the question that it answers.
