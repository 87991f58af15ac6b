//! The worked study of docs/simulator.md: how do pipelines and ZeRO-2 and 3 work together, and what does it cost?
//!
//! ```text
//! cargo run --release -p pipezero --example study             prints the tables
//! cargo run --release -p pipezero --example study -- --write  writes them into the page, and its pictures
//! ```
//!
//! Nothing is trained, sent or allocated: a plan says what every rank does and holds, the analytic model of an H100 what
//! that costs, and the simulator when it happens. The page is held against this program by its test.

mod case;
mod markdown;
mod outcome;
mod page;
mod pictures;
mod schedules;
mod sweep;
mod tables;
mod tensor_parallel;
#[cfg(test)]
mod tests;
mod threshold;
mod variant;

use std::error::Error;

use self::tables::{GridRows, Titled};

fn main() -> Result<(), Box<dyn Error>> {
    let tables = tables::all(&grids()?)?;
    if std::env::args().any(|argument| argument == "--write") {
        let path = page::folder().join("simulator.md");
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(&path, page::with_tables(&page, &tables)?)?;
        for picture in pictures::all()? {
            std::fs::write(&picture.path, picture.svg)?;
        }
        return Ok(());
    }
    for Titled { title, table } in tables {
        println!("{title}\n\n{}", table.text());
    }
    Ok(())
}

/// Every variant on both grids.
fn grids() -> Result<Vec<GridRows>, Box<dyn Error>> {
    case::DATA_DEGREES.into_iter().map(GridRows::new).collect()
}
