//! Markdown tables.

/// Rows of cells below a heading.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    text: String,
    num_columns: usize,
}

impl Table {
    /// A table without rows; ` | ` separates the headings of columns.
    pub(crate) fn new(heading: &str) -> Self {
        let num_columns = heading.split(" | ").count();
        Self { text: format!("| {heading} |\n|{}\n", "---|".repeat(num_columns)), num_columns }
    }

    /// A row with a cell for every column.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.num_columns, "{cells:?}");
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Bytes of memory in GiB.
pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1u64 << 30) as f64)
}

/// Sent bytes in GB, the unit of link rates.
pub(crate) fn gb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

/// A share in percent; 0 is empty, so that the other shares are easier to see.
pub(crate) fn percent(share: f64) -> String {
    let written = signed_percent(share);
    if written == "0.0" { String::new() } else { written }
}

/// A difference in percent, without a sign if it rounds to 0.
pub(crate) fn signed_percent(share: f64) -> String {
    let written = format!("{:.1}", 100.0 * share);
    if written == "-0.0" { "0.0".to_owned() } else { written }
}
