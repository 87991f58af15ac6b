//! Programs from text.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::str::FromStr;

use super::cursor::Cursor;
use super::instruction::instruction;
use super::words::{PURPOSES, READERS, REDUCTIONS, TYINGS, YES_OR_NO};
use super::{ParseError, Problem, VERSION};
use crate::chain::Chain;
use crate::id::{PipelineRank, Stage, Unit};
use crate::instruction::Instruction;
use crate::options::{LowerOptions, Residency, UnreducedGradients, Weights};
use crate::placement::Placement;
use crate::program::Program;
use crate::unit_facts::{UnitFacts, UnitSharding};

impl FromStr for Program {
    type Err = ParseError;

    /// Reads the text form ([`crate::text`]), and nothing else.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut lines = Lines { rest: text, number: 0 };
        version(&mut lines)?;
        let placement = placement(&mut lines)?;
        let num_micro_batches =
            single(&mut lines, "micro-batches", "`micro-batches` and their number", |cursor| {
                cursor.number("the number of micro-batches")
            })?;
        let purpose =
            single(&mut lines, "purpose", "`purpose training` or `purpose evaluation`", |cursor| {
                cursor.one_of(&PURPOSES, "`training` or `evaluation`")
            })?;
        let weights = single(&mut lines, "weights", "`weights` and how they are held", weights)?;
        let (reduction, unreduced) =
            single(&mut lines, "reduction", "`reduction` and its policy", |cursor| {
                let policy =
                    cursor.one_of(&REDUCTIONS, "`all-reduce-last`, `scatter-last` or `scatter-every`")?;
                let in_turn = mark(cursor, "in-turn");
                Ok((policy, if in_turn { UnreducedGradients::One } else { UnreducedGradients::Two }))
            })?;
        let gather_after_step = single(
            &mut lines,
            "gather-after-step",
            "`gather-after-step yes` or `gather-after-step no`",
            |cursor| cursor.one_of(&YES_OR_NO, "`yes` or `no`"),
        )?;
        let chain = units(&mut lines, placement)?;
        let options = LowerOptions { weights, reduction, unreduced, gather_after_step };
        let rows = rows(&mut lines, chain.num_ranks())?;
        Ok(Self { chain, num_micro_batches, purpose, options, rows })
    }
}

/// The lines that are left.
struct Lines<'a> {
    rest: &'a str,
    /// Of the line taken last, from 1.
    number: usize,
}

impl<'a> Lines<'a> {
    /// Takes the next line; every line ends with a line feed.
    fn next(&mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        self.number += 1;
        let Some((line, rest)) = self.rest.split_once('\n') else {
            let column = self.rest.chars().count() + 1;
            return Err(ParseError { line: self.number, column, problem: Problem::EndOfText { expected } });
        };
        self.rest = rest;
        Ok(line)
    }

    fn cursor(&mut self, expected: &'static str) -> Result<Cursor<'a>, ParseError> {
        let line = self.next(expected)?;
        Ok(Cursor::new(self.number, line))
    }
}

/// A line of a key and its value.
fn single<'a, T>(
    lines: &mut Lines<'a>,
    key: &str,
    expected: &'static str,
    value: impl FnOnce(&mut Cursor<'a>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let mut cursor = lines.cursor(expected)?;
    cursor.literal(key, expected)?;
    let value = value(&mut cursor)?;
    cursor.end()?;
    Ok(value)
}

fn version(lines: &mut Lines<'_>) -> Result<(), ParseError> {
    single(lines, "pipezero-program", "`pipezero-program` and the version", |cursor| {
        let found = cursor.number("the version of the text form")?;
        if found == VERSION { Ok(()) } else { Err(cursor.problem(Problem::Version { found })) }
    })
}

fn placement(lines: &mut Lines<'_>) -> Result<Placement, ParseError> {
    single(lines, "placement", "`placement` and the rank of each stage", |cursor| {
        let mut ranks = Vec::new();
        while cursor.has_more() {
            ranks.push(PipelineRank(cursor.id(PipelineRank::PREFIX, "a rank as in `p0`")?));
        }
        Placement::new(ranks).map_err(|error| cursor.problem(Problem::Placement(error)))
    })
}

fn weights(cursor: &mut Cursor<'_>) -> Result<Weights, ParseError> {
    let expected = "`replicated` or `sharded`";
    match cursor.word(expected)? {
        "replicated" => Ok(Weights::Replicated),
        "sharded" => {
            let residency = residency(cursor)?;
            cursor.literal("prefetch", "`prefetch` and how many uses ahead")?;
            let prefetch_units = cursor.number("how many uses ahead a gather is issued")?;
            Ok(Weights::Sharded { residency, prefetch_units })
        }
        found => Err(cursor.unexpected(found, expected)),
    }
}

fn residency(cursor: &mut Cursor<'_>) -> Result<Residency, ParseError> {
    let expected =
        "`strict`, `all`, `units` and their number, or `units-per-rank` and a number for each pipeline rank";
    match cursor.word(expected)? {
        "strict" => Ok(Residency::Strict),
        "all" => Ok(Residency::All),
        "units" => Ok(Residency::Units(resident_units(cursor)?)),
        "units-per-rank" => {
            let mut of_ranks = vec![resident_units(cursor)?];
            while cursor.next_word("`prefetch` or a number")? != "prefetch" {
                of_ranks.push(resident_units(cursor)?);
            }
            Ok(Residency::PerRank(of_ranks.into()))
        }
        found => Err(cursor.unexpected(found, expected)),
    }
}

fn resident_units(cursor: &mut Cursor<'_>) -> Result<NonZeroU32, ParseError> {
    let units = NonZeroU32::new(cursor.number("the number of resident units")?);
    units.ok_or_else(|| cursor.problem(Problem::NoResidentUnits))
}

fn units(lines: &mut Lines<'_>, placement: Placement) -> Result<Chain, ParseError> {
    let num_units =
        single(lines, "units", "`units` and their number", |cursor| cursor.number("the number of units"))?;
    let header_line = lines.number;
    let mut units = Vec::new();
    for index in 0..num_units {
        let line = lines.next("a unit as in `  u0 s0 bytes 64 reads FB untied`")?;
        units.push(unit(indented(lines.number, line)?, index)?);
    }
    let wrap = |error| ParseError { line: header_line, column: 1, problem: Problem::Chain(error) };
    Chain::new(placement, units).map_err(wrap)
}

/// The inside of a line that begins with two spaces.
fn indented(number: usize, line: &str) -> Result<Cursor<'_>, ParseError> {
    let Some(inside) = line.strip_prefix("  ") else {
        let problem = Problem::Word { found: super::cursor::quoted(line), expected: "two spaces before it" };
        return Err(ParseError { line: number, column: 1, problem });
    };
    Ok(Cursor::indented(number, inside))
}

fn unit(mut cursor: Cursor<'_>, index: u32) -> Result<UnitFacts, ParseError> {
    let found = cursor.id(Unit::PREFIX, "a unit as in `u0`")?;
    if found != index {
        return Err(cursor.problem(Problem::UnitOutOfOrder { found, expected: index }));
    }
    let stage = Stage(cursor.id(Stage::PREFIX, "a stage as in `s0`")?);
    cursor.literal("bytes", "`bytes` and those of the gathered unit")?;
    let num_bytes = cursor.number("the bytes of the gathered unit")?;
    cursor.literal("reads", "`reads` and who reads the weights")?;
    let (forward_reads_weights, backward_reads_weights) =
        cursor.one_of(&READERS, "`FB`, `F`, `B` or `none`")?;
    let tying = cursor.one_of(&TYINGS, "`untied`, `embedding` or `head`")?;
    let sharding = match () {
        () if mark(&mut cursor, "persistent") => UnitSharding::Persistent,
        () if mark(&mut cursor, "whole") => UnitSharding::Whole,
        () if mark(&mut cursor, "mixed") => {
            cursor.literal("persistent", "`persistent` and the bytes of the persistent part")?;
            let persistent_bytes = cursor.number("the bytes of the persistent part")?;
            cursor.literal("whole", "`whole` and the bytes of the whole part")?;
            let whole_bytes = cursor.number("the bytes of the whole part")?;
            UnitSharding::Mixed { persistent_bytes, whole_bytes }
        }
        () => UnitSharding::Sharded,
    };
    let recomputes = mark(&mut cursor, "recomputes");
    let has_frozen = mark(&mut cursor, "frozen");
    let is_frozen = has_frozen && cursor.end().is_ok();
    let frozen_bytes = if has_frozen && !is_frozen { frozen_bytes(&mut cursor)? } else { 0 };
    cursor.end()?;
    Ok(UnitFacts {
        stage,
        num_bytes,
        forward_reads_weights,
        backward_reads_weights,
        tying,
        sharding,
        recomputes,
        frozen_bytes,
        is_frozen,
    })
}

fn frozen_bytes(cursor: &mut Cursor<'_>) -> Result<u64, ParseError> {
    match cursor.number("the bytes that are frozen, or nothing where all are")? {
        0 => Err(cursor.problem(Problem::NoFrozenBytes)),
        num_bytes => Ok(num_bytes),
    }
}

/// Takes a word that marks the unit, if it is the next one.
fn mark(cursor: &mut Cursor<'_>, word: &'static str) -> bool {
    let mut ahead = *cursor;
    let is_marked = ahead.literal(word, word).is_ok();
    if is_marked {
        *cursor = ahead;
    }
    is_marked
}

/// The rows up to `end`, which ends the text.
fn rows(lines: &mut Lines<'_>, num_ranks: usize) -> Result<Vec<Vec<Instruction>>, ParseError> {
    let mut rows = Vec::new();
    loop {
        let expected = if rows.len() < num_ranks { "`row` and its rank, or an instruction" } else { "`end`" };
        let line = lines.next(expected)?;
        if let (Some(row), true) = (rows.last_mut(), line.starts_with(' ')) {
            let row: &mut Vec<Instruction> = row;
            let mut cursor = indented(lines.number, line)?;
            row.push(instruction(&mut cursor)?);
            cursor.end()?;
            continue;
        }
        let mut cursor = Cursor::new(lines.number, line);
        match cursor.word(expected)? {
            "row" if rows.len() < num_ranks => {
                let found = PipelineRank(cursor.id(PipelineRank::PREFIX, "a rank as in `p0`")?);
                let expected = PipelineRank(rows.len() as u32);
                if found != expected {
                    return Err(cursor.problem(Problem::RowOutOfOrder { found, expected }));
                }
                cursor.end()?;
                rows.push(Vec::new());
            }
            "end" if rows.len() == num_ranks => {
                cursor.end()?;
                break;
            }
            found => return Err(cursor.unexpected(found, expected)),
        }
    }
    if lines.rest.is_empty() {
        return Ok(rows);
    }
    Err(ParseError { line: lines.number + 1, column: 1, problem: Problem::MoreText })
}
