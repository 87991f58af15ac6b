//! Costs of whole plans.

mod calculated; // Analytic costs beside closed forms.
mod measured; // Costs files, applied to other plans than they were measured on.
mod memory; // What is in use beside what is allocated.
mod messages; // Bytes beside the plan's traffic.
mod slowness; // Ranks that are off their mean times.
