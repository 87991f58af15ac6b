//! The page of the study: its tables are replaced in place, each below a comment with its title.

use std::path::{Path, PathBuf};

use crate::tables::Titled;

/// The folder of the pages.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The comment above a table.
fn mark(title: &str) -> String {
    format!("<!-- study: {title} -->\n")
}

/// The page with these tables.
///
/// # Errors
/// The title whose mark the page does not have.
pub(crate) fn with_tables(page: &str, tables: &[Titled]) -> Result<String, String> {
    let mut page = page.to_owned();
    for Titled { title, table } in tables {
        let mark = mark(title);
        let Some((above, below)) = page.split_once(&mark) else {
            return Err(format!("the page has no `{}`", mark.trim_end()));
        };
        let rest = below.trim_start_matches('\n');
        let old: usize =
            rest.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
        page = format!("{above}{mark}\n{}\n{}", table.text(), rest[old..].trim_start_matches('\n'));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::Table;

    fn titled(cell: &str) -> Titled {
        let mut table = Table::new("a");
        table.push([cell.to_owned()]);
        Titled { title: "T".to_owned(), table }
    }

    #[test]
    fn a_table_is_replaced_and_nothing_else() {
        let page = "above | \n\n<!-- study: T -->\n\n| a |\n|---|\n| old |\n| older |\n\nbelow\n";
        let with = with_tables(page, &[titled("new")]).unwrap();
        assert_eq!(with, "above | \n\n<!-- study: T -->\n\n| a |\n|---|\n| new |\n\nbelow\n");
        assert_eq!(with_tables(&with, &[titled("new")]).unwrap(), with);
        assert!(with_tables("no mark", &[titled("new")]).is_err());
    }
}
