//! Compute orders to CSV.

use alloc::string::String;
use core::fmt::Write as _;

use crate::order::ComputeOrder;

impl ComputeOrder {
    /// The order as PyTorch's pipelining CSV: a row per rank, a cell per action. [`ComputeOrder::from_csv`] reads it.
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        for row in &self.rows {
            for (position, action) in row.iter().enumerate() {
                let comma = if position == 0 { "" } else { "," };
                write!(csv, "{comma}{action}").expect("a string takes any text");
            }
            csv.push('\n');
        }
        csv
    }
}
