//! What becomes of a plan's parameters, as tables.

use pipezero_plan::{ParameterKind, Plan};

use super::figures::{bytes, count};
use super::table::Table;

/// A row for each kind, where there are several: what a list, thresholds or `train_only` decide.
pub(super) fn kinds(plan: &Plan, are_listed: bool, width: usize) -> String {
    let kinds = plan.parameter_kinds();
    if kinds.len() < 2 {
        return String::new();
    }
    let header = ["parameters of the model", "parameters", "elements", "before sharding", "first", "last"];
    let mut table = Table::new(header);
    for kind in &kinds {
        let ends = [kind.parameters.first(), kind.parameters.last()];
        let ends = ends.map(|of| of.map_or_else(String::new, |of| of.name.clone()));
        let figures = [kind.parameters.len().to_string(), count(kind.elements), bytes(kind.bytes)];
        table.row(name(kind), figures.into_iter().chain(ends));
    }
    let more = if are_listed { "" } else { "--parameters lists each\n" };
    format!("{table:width$}{more}\n")
}

/// A row for each parameter, by what becomes of it.
pub(super) fn each(plan: &Plan, width: usize) -> String {
    let mut table = Table::new(["parameter", "pipeline rank", "elements", "becomes"]);
    for kind in &plan.parameter_kinds() {
        for parameter in &kind.parameters {
            let cells = [parameter.pipeline_rank.to_string(), parameter.elements.to_string(), name(kind)];
            table.row(&parameter.name, cells);
        }
    }
    format!("{table:width$}")
}

fn name(kind: &ParameterKind) -> String {
    let frozen = if kind.is_trained { "" } else { ", frozen" };
    format!("{}{frozen}", kind.becomes)
}
