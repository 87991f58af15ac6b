//! Round trips and every kind of error.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use expect_test::expect;
use proptest::prelude::*;

use super::ParseError;
use crate::generate::one_f_one_b;
use crate::instruction::{Instruction, InstructionKind};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::program::Program;
use crate::testing::{all_programs, resident, units};

#[test]
fn every_generated_program_round_trips() {
    for program in all_programs(4, 8, 2) {
        let text = program.to_string();
        let parsed: Program = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(parsed, program);
        assert_eq!(parsed.to_string(), text);
    }
}

#[test]
fn errors_list_the_word_of_every_kind() {
    let words = InstructionKind::ALL.map(|(_, word)| format!("`{word}`"));
    let (last, others) = words.split_last().unwrap();
    assert_eq!(super::instruction::KINDS, format!("{} or {last}", others.join(", ")));
}

fn small() -> String {
    let options = LowerOptions::zero_3(resident(2), 1);
    lower(&one_f_one_b(2, 1).unwrap(), &units(2, 1, true), &options).unwrap().to_string()
}

#[test]
fn the_form_is_as_documented() {
    expect![[r#"
        pipezero-program 2
        placement p0 p1
        micro-batches 1
        purpose training
        weights sharded units 2 prefetch 1
        reduction scatter-every
        gather-after-step no
        units 2
          u0 s0 bytes 64 reads F embedding
          u1 s1 bytes 64 reads FB head
        row p0
          RECV s1>s0 m0
          UNSHARD u0
          F u0 m0
          SEND s0>s1 m0
          RESHARD u0
          B u0 m0
          REDUCE u0 m0
          ADD_TIED u0 u1
          GRAD_NORM
          STEP u0
        row p1
          RECV s0>s1 m0
          UNSHARD u1
          F u1 m0
          B u1 m0
          SEND s1>s0 m0
          RESHARD u1
          REDUCE u1 m0
          ADD_TIED u0 u1
          GRAD_NORM
          STEP u1
        end
    "#]]
    .assert_eq(&small());
}

/// Replaces the first occurrence, which must be there.
fn broken(from: &str, to: &str) -> ParseError {
    let text = small();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).parse::<Program>().expect_err("the text is broken")
}

/// What is replaced by what.
const BREAKS: [(&str, &str); 42] = [
    ("pipezero-program 2", "pipezero-program 1"),
    ("pipezero-program 2", "pipezero-program 02"),
    ("pipezero-program", "megatron-program"),
    ("placement p0 p1", "placement"),
    ("placement p0 p1", "placement p1"),
    ("placement p0 p1", "placement p0 p2"),
    ("placement p0 p1", "placement p0  p1"),
    ("micro-batches 1", "micro-batches -1"),
    ("micro-batches 1", "micro-batches 4294967296"),
    ("micro-batches 1", "micro-batches 1 "),
    ("purpose training", "purpose fun"),
    ("purpose training\n", ""),
    ("sharded units 2", "sharded units 0"),
    ("sharded units 2", "sharded some 2"),
    ("units 2 prefetch", "units-per-rank prefetch"),
    ("units 2 prefetch", "units-per-rank 2 0 prefetch"),
    ("units 2 prefetch 1", "units-per-rank 2 3"),
    ("units 2 prefetch", "units-per-rank 2 3 all prefetch"),
    ("prefetch 1", "prefetch"),
    ("scatter-every", "scatter-sometimes"),
    ("scatter-every", "scatter-every in-turns"),
    ("gather-after-step no", "gather-after-step maybe"),
    ("units 2\n", "units 3\n"),
    ("u1 s1 bytes", "u2 s1 bytes"),
    ("u1 s1 bytes", "u1 s0 bytes"),
    ("reads FB", "reads BF"),
    (" head", " tail"),
    (" head", " untied"),
    ("row p1", "row p0"),
    ("  F u0 m0", "F u0 m0"),
    ("  F u0 m0", "   F u0 m0"),
    ("  F u0 m0", "  F u0"),
    ("  F u0 m0", "  F u0 m0 m1"),
    ("  F u0 m0", "  F m0 u0"),
    ("  F u0 m0", "  f u0 m0"),
    ("SEND s0>s1", "SEND s0>s2"),
    ("SEND s0>s1", "SEND s0-s1"),
    ("end\n", ""),
    ("end\n", "end"),
    ("end\n", "row p2\nend\n"),
    ("end\n", "end\n\n"),
    ("\n", "\r\n"),
];

#[test]
fn errors_have_line_column_value_and_repair() {
    let messages: Vec<String> =
        BREAKS.iter().map(|(from, to)| format!("{to:?}: {}\n", broken(from, to))).collect();
    expect![[r#"
        "pipezero-program 1": line 1, column 18: version 1 is not read here; write version 2
        "pipezero-program 02": line 1, column 18: found `02`; write the version of the text form, in plain decimal without leading zeros, below 2^32
        "megatron-program": line 1, column 1: found `megatron-program`; write `pipezero-program` and the version
        "placement": line 2, column 1: 0 stages: a pipeline has at least one; give its rank
        "placement p1": line 2, column 11: no stage lies on rank 0: every rank needs one; number the ranks without gaps
        "placement p0 p2": line 2, column 14: no stage lies on rank 1: every rank needs one; number the ranks without gaps
        "placement p0  p1": line 2, column 14: found ` `; write a rank as in `p0`
        "micro-batches -1": line 3, column 15: found `-1`; write the number of micro-batches, in plain decimal without leading zeros, below 2^32
        "micro-batches 4294967296": line 3, column 15: found `4294967296`; write the number of micro-batches, in plain decimal without leading zeros, below 2^32
        "micro-batches 1 ": line 3, column 16: ` ` follows the end of the line's form; drop it
        "purpose fun": line 4, column 9: found `fun`; write `training` or `evaluation`
        "": line 4, column 1: found `weights`; write `purpose training` or `purpose evaluation`
        "sharded units 0": line 5, column 23: 0 resident units; a unit in use is held, so write at least 1
        "sharded some 2": line 5, column 17: found `some`; write `strict`, `all`, `units` and their number, or `units-per-rank` and a number for each pipeline rank
        "units-per-rank prefetch": line 5, column 32: found `prefetch`; write the number of resident units, in plain decimal without leading zeros, below 2^32
        "units-per-rank 2 0 prefetch": line 5, column 34: 0 resident units; a unit in use is held, so write at least 1
        "units-per-rank 2 3": line 5, column 35: the line ends here; write `prefetch` or a number
        "units-per-rank 2 3 all prefetch": line 5, column 36: found `all`; write the number of resident units, in plain decimal without leading zeros, below 2^32
        "prefetch": line 5, column 33: the line ends here; write how many uses ahead a gather is issued
        "scatter-sometimes": line 6, column 11: found `scatter-sometimes`; write `all-reduce-last`, `scatter-last` or `scatter-every`
        "scatter-every in-turns": line 6, column 24: ` in-turns` follows the end of the line's form; drop it
        "gather-after-step maybe": line 7, column 19: found `maybe`; write `yes` or `no`
        "units 3\n": line 11, column 1: found `row p0`; write two spaces before it
        "u2 s1 bytes": line 10, column 3: unit 2 is out of order; write units in chain order, here u1
        "u1 s0 bytes": line 8, column 1: stage 1 has no unit: every stage has at least 1; use fewer stages or more units
        "reads BF": line 10, column 24: found `BF`; write `FB`, `F`, `B` or `none`
        " tail": line 10, column 27: found `tail`; write `untied`, `embedding` or `head`
        " untied": line 8, column 1: 1 units are marked as tied embedding and 0 as tied head: each slice of a tied weight has one embedding and, behind all embeddings, one head; mark both or none
        "row p0": line 22, column 5: the row of rank 0 is out of order; write rows in rank order, here p1
        "F u0 m0": line 14, column 1: found `F`; write `row` and its rank, or an instruction
        "   F u0 m0": line 14, column 3: found ` `; write `F`, `B`, `I`, `W`, `R`, `UNSHARD`, `RESHARD`, `REDUCE`, `REDUCE_LAST`, `ALL_REDUCE`, `SEND`, `RECV`, `ADD_TIED`, `GRAD_NORM`, `STEP` or `GATHER_STEP`
        "  F u0": line 14, column 7: the line ends here; write a micro-batch as in `m0`
        "  F u0 m0 m1": line 14, column 10: ` m1` follows the end of the line's form; drop it
        "  F m0 u0": line 14, column 5: found `m0`; write a unit as in `u0`, in plain decimal without leading zeros, below 2^32
        "  f u0 m0": line 14, column 3: found `f`; write `F`, `B`, `I`, `W`, `R`, `UNSHARD`, `RESHARD`, `REDUCE`, `REDUCE_LAST`, `ALL_REDUCE`, `SEND`, `RECV`, `ADD_TIED`, `GRAD_NORM`, `STEP` or `GATHER_STEP`
        "SEND s0>s2": line 15, column 8: `s0>s2` joins stages that are not neighbours; write `s0>s1` or `s1>s0`
        "SEND s0-s1": line 15, column 8: found `s0-s1`; write an edge as in `s0>s1`
        "": line 33, column 1: the text ends here; write `end` and a line feed
        "end": line 33, column 4: the text ends here; write `end` and a line feed
        "row p2\nend\n": line 33, column 1: found `row`; write `end`
        "end\n\n": line 34, column 1: text follows `end`; drop it
        "\r\n": line 1, column 18: found `2\r`; write the version of the text form, in plain decimal without leading zeros, below 2^32
    "#]].assert_eq(&messages.concat());
}

/// The text of any instruction.
fn texts() -> impl Strategy<Value = String> {
    let operands = (any::<u32>(), any::<u32>(), 0..u32::MAX, any::<bool>());
    (prop::sample::select(InstructionKind::ALL.to_vec()), operands).prop_map(
        |((_, word), (unit, other, low, is_up))| match word {
            "F" | "B" | "I" | "W" | "R" | "REDUCE" => format!("{word} u{unit} m{other}"),
            "SEND" | "RECV" if is_up => format!("{word} s{low}>s{} m{other}", low + 1),
            "SEND" | "RECV" => format!("{word} s{}>s{low} m{other}", low + 1),
            "ADD_TIED" => format!("{word} u{unit} u{other}"),
            "GRAD_NORM" => word.to_string(),
            _ => format!("{word} u{unit}"),
        },
    )
}

proptest! {
    #[test]
    fn every_instruction_round_trips(text in texts()) {
        prop_assert_eq!(text.parse::<Instruction>().map(|instruction| instruction.to_string()), Ok(text));
    }

    /// A tied addition names two units, which is why it names no one unit.
    #[test]
    fn instructions_say_the_unit_and_micro_batch_of_their_text(text in texts()) {
        let instruction: Instruction = text.parse().unwrap();
        let named = |letter: char| text.split(' ').skip(1).filter(move |word| word.starts_with(letter));
        let unit = instruction.unit().map(|unit| unit.to_string());
        let units: Vec<&str> = named('u').collect();
        prop_assert_eq!(unit.as_deref(), if let [only] = units[..] { Some(only) } else { None });
        let micro_batch = instruction.micro_batch().map(|micro_batch| micro_batch.to_string());
        prop_assert_eq!(micro_batch.as_deref(), named('m').next());
        let computes = text.starts_with(['F', 'B', 'I', 'W']) || text.starts_with("R ");
        prop_assert_eq!(instruction.is_micro_batch_compute(), computes);
    }

    /// Whatever parses prints as the same text; whatever does not names a place in it.
    #[test]
    fn what_parses_is_canonical(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<char>(), 0..3), 1..4)) {
        let mut text: Vec<char> = small().chars().collect();
        for (at, character, kind) in edits {
            let at = at.index(text.len());
            match kind {
                0 => text[at] = character,
                1 => text.insert(at, character),
                _ => drop(text.remove(at)),
            }
        }
        let text: String = text.into_iter().collect();
        match text.parse::<Program>() {
            Ok(program) => prop_assert_eq!(program.to_string(), text),
            Err(error) => {
                let num_lines = text.split('\n').count();
                prop_assert!((1..=num_lines).contains(&error.line), "{}", error);
                let line = text.split('\n').nth(error.line - 1).unwrap();
                prop_assert!((1..=line.chars().count() + 1).contains(&error.column), "{}: {:?}", error, line);
            }
        }
    }
}
