//! The worked study of docs/simulator.md: how do pipelines and ZeRO-2 and 3 work together, and what does it cost?
//!
//! ```text
//! cargo run --release -p pipezero --example study
//! ```
//!
//! Prints the page's tables; its tests hold the page against them. Nothing is allocated, sent or trained: a plan says what every rank does and holds, the analytic model
//! of an H100 what it costs, and the simulator when it happens.

mod case;
mod markdown;
mod outcome;
mod schedules;
mod sweep;
mod tables;
mod tensor_parallel;
mod threshold;
mod variant;

use std::error::Error;

use self::tables::GridRows;

fn main() -> Result<(), Box<dyn Error>> {
    for tables::Titled { title, table } in report()? {
        println!("{title}\n\n{}", table.text());
    }
    Ok(())
}

fn report() -> Result<Vec<tables::Titled>, Box<dyn Error>> {
    let grids = case::DATA_DEGREES.map(GridRows::new);
    let grids = grids.into_iter().collect::<Result<Vec<_>, _>>()?;
    tables::all(&grids)
}
