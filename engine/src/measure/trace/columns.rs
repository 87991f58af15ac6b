//! The moments of a rank's row as columns, one for each kind of event: what is collected from events, and what a file holds.

use pipezero_schedule::CheckedProgram;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::members::Site;
use super::moments::{Form, MessageMoments, Moments};
use crate::run::executor::{Event, EventKind};

const KINDS: [EventKind; 5] =
    [EventKind::Started, EventKind::Issued, EventKind::Awaited, EventKind::Arrived, EventKind::Ended];

/// `[index]` in each column: when that happened to the instruction, in nanoseconds; nothing where it never does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Columns {
    started: Vec<Option<u64>>,
    issued: Vec<Option<u64>>,
    awaited: Vec<Option<u64>>,
    arrived: Vec<Option<u64>>,
    ended: Vec<Option<u64>>,
}

/// The name of a kind's column.
pub(super) fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Started => "started",
        EventKind::Issued => "issued",
        EventKind::Awaited => "awaited",
        EventKind::Arrived => "arrived",
        EventKind::Ended => "ended",
    }
}

impl Columns {
    /// The events of the world rank of a site, with times since `origin_ns`.
    pub(super) fn of_events(
        program: &CheckedProgram,
        rank: Site,
        events: &[Event],
        origin_ns: u64,
    ) -> Result<Self, Fault> {
        let row = program.row(rank.pipeline_rank);
        let mut columns = Self::default();
        KINDS.iter().for_each(|&kind| columns.column_mut(kind).resize(row.len(), None));
        for &Event { index, kind, at_ns } in events {
            // Whatever lies before the origin is found to be out of order later.
            let at_ns = at_ns.saturating_sub(origin_ns);
            if columns.column_mut(kind)[index].replace(at_ns).is_some() {
                return Err(Fault::Twice { place: rank.at(index).place(program), moment: name(kind) });
            }
        }
        Ok(columns)
    }

    /// The columns of moments.
    pub(super) fn of_moments(row: &[Moments]) -> Self {
        let mut columns = Self::default();
        for moments in row {
            let times = match *moments {
                Moments::Compute { started_ns, ended_ns } => {
                    [Some(started_ns), None, None, None, Some(ended_ns)]
                }
                Moments::Meeting { started_ns, joined_ns, ended_ns } => {
                    [Some(started_ns), None, Some(joined_ns), None, Some(ended_ns)]
                }
                Moments::Message(of) => {
                    [of.started_ns, of.issued_ns, of.awaited_ns, of.arrived_ns, of.ended_ns].map(Some)
                }
            };
            KINDS.iter().zip(times).for_each(|(&kind, time)| columns.column_mut(kind).push(time));
        }
        columns
    }

    /// The moments of every instruction of the row of a site.
    pub(super) fn moments(&self, program: &CheckedProgram, rank: Site) -> Result<Vec<Moments>, Fault> {
        let num_instructions = program.row(rank.pipeline_rank).len();
        for kind in KINDS {
            let found = self.column(kind).len();
            if found != num_instructions {
                let (rank, moment, expected) = (rank.rank, name(kind), num_instructions);
                return Err(Fault::NumInstructions { rank, moment, found, expected });
            }
        }
        (0..num_instructions).map(|index| self.moments_of(program, rank.at(index))).collect()
    }

    fn moments_of(&self, program: &CheckedProgram, site: Site) -> Result<Moments, Fault> {
        let form = Form::of(program, site.instruction(program));
        let (index, place) = (site.index, || site.place(program));
        let mut latest: Option<(EventKind, u64)> = None;
        for kind in KINDS {
            let has = form.kinds().contains(&kind);
            match self.column(kind)[index] {
                None if has => return Err(Fault::Missing { place: place(), moment: name(kind) }),
                Some(_) if !has => return Err(Fault::Unexpected { place: place(), moment: name(kind) }),
                Some(at_ns) => {
                    if let Some((before, before_ns)) = latest.filter(|&(_, before_ns)| before_ns > at_ns) {
                        let moments = [name(before), name(kind)];
                        return Err(Fault::Backwards { place: place(), moments, at_ns: [before_ns, at_ns] });
                    }
                    latest = Some((kind, at_ns));
                }
                None => {}
            }
        }
        let at = |kind| self.column(kind)[index].expect("every moment of the form was found just now");
        let (started_ns, ended_ns) = (at(EventKind::Started), at(EventKind::Ended));
        Ok(match form {
            Form::Compute => Moments::Compute { started_ns, ended_ns },
            Form::Meeting => Moments::Meeting { started_ns, joined_ns: at(EventKind::Awaited), ended_ns },
            Form::Message => Moments::Message(MessageMoments {
                started_ns,
                issued_ns: at(EventKind::Issued),
                awaited_ns: at(EventKind::Awaited),
                arrived_ns: at(EventKind::Arrived),
                ended_ns,
            }),
        })
    }

    fn column(&self, kind: EventKind) -> &[Option<u64>] {
        match kind {
            EventKind::Started => &self.started,
            EventKind::Issued => &self.issued,
            EventKind::Awaited => &self.awaited,
            EventKind::Arrived => &self.arrived,
            EventKind::Ended => &self.ended,
        }
    }

    fn column_mut(&mut self, kind: EventKind) -> &mut Vec<Option<u64>> {
        match kind {
            EventKind::Started => &mut self.started,
            EventKind::Issued => &mut self.issued,
            EventKind::Awaited => &mut self.awaited,
            EventKind::Arrived => &mut self.arrived,
            EventKind::Ended => &mut self.ended,
        }
    }
}
