//! Views of a layer's parameters, and of their gradients: one for each parameter, in the order of declaration.
//!
//! A unit keeps its parameters in up to [`MAX_PARTS`] flat buffers, its *parts*, which may be elsewhere and of another age: one gathered for
//! a use, one that stays. A layer sees none of that. Views are made where they are asked for, so a call has no list of them to allocate.

use std::array;
use std::ops::Range;

use crate::kernels::matmul::WriteMode;
use crate::layout;
use crate::memory::{View, ViewMut};

/// Flat buffers that a unit's parameters lie in, at most.
pub const MAX_PARTS: usize = 6;

/// Where a parameter lies: in which part, and where there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the unit's parts.
    pub part: usize,
    /// The elements there.
    pub range: Range<usize>,
}

/// The parts of a unit's parameters, by number; a part may be longer than its parameters. What is not read need not be there.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartViews<'a>(pub [Option<View<'a>>; MAX_PARTS]);

/// Where a gradient goes: that of a parameter, or of all parameters of a part.
#[derive(Debug)]
pub struct GradientView<'a> {
    /// As long as the parameter.
    pub to: ViewMut<'a>,
    /// What happens to what is there. With [`WriteMode::Overwrite`] that is anything, NaN included.
    pub mode: WriteMode,
}

/// The gradients of a unit's parameters, by part, as [`PartViews`]. One part may be overwritten while another is added to; a part that is not
/// there is frozen.
#[derive(Debug, Default)]
pub struct PartGradients<'a>(pub [Option<GradientView<'a>>; MAX_PARTS]);

/// The parameters of a layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParameterViews<'a> {
    pub(crate) parts: PartViews<'a>,
    pub(crate) places: &'a [Place],
}

/// Where the gradients of a layer's parameters go.
#[derive(Debug)]
pub struct GradientViews<'a> {
    pub(crate) parts: PartGradients<'a>,
    pub(crate) places: &'a [Place],
}

/// The only part.
impl<'a> From<View<'a>> for PartViews<'a> {
    fn from(view: View<'a>) -> Self {
        let mut parts = Self::default();
        parts.0[0] = Some(view);
        parts
    }
}

/// The only part.
impl<'a> From<GradientView<'a>> for PartGradients<'a> {
    fn from(view: GradientView<'a>) -> Self {
        let mut parts = Self::default();
        parts.0[0] = Some(view);
        parts
    }
}

impl<'a> PartViews<'a> {
    pub(crate) fn of(self, place: &Place) -> View<'a> {
        self.0[place.part].expect("what is read is there").range(place.range.clone())
    }
}

impl<'a> GradientView<'a> {
    /// Overwrites what is there.
    pub fn overwriting(to: ViewMut<'a>) -> Self {
        Self { to, mode: WriteMode::Overwrite }
    }

    /// Some of its elements.
    pub fn range(self, range: Range<usize>) -> Self {
        Self { to: self.to.range(range), ..self }
    }

    /// The same elements, for a call that is not the last to write them.
    pub fn reborrow(&mut self) -> GradientView<'_> {
        GradientView { to: self.to.reborrow(), mode: self.mode }
    }
}

impl PartGradients<'_> {
    pub(crate) fn reborrow(&mut self) -> PartGradients<'_> {
        PartGradients(self.0.each_mut().map(|part| part.as_mut().map(GradientView::reborrow)))
    }
}

impl<'a> ParameterViews<'a> {
    /// The parameters of these lengths. Where a length is 0 the layer has no such parameter, and the view is empty.
    ///
    /// # Panics
    /// If the layer declares others, or they are not there because its input gradient [does not read them](crate::Layer::backward_reads_weights):
    /// a bug of the layer.
    pub fn split<const K: usize>(self, lens: [usize; K]) -> [View<'a>; K] {
        let empty = || self.parts.0.iter().flatten().next().expect("some are there").range(0..0);
        places(self.places, lens).map(|place| place.map_or_else(empty, |place| self.parts.of(place)))
    }

    /// The only parameter.
    ///
    /// # Panics
    /// As [`ParameterViews::split`].
    pub fn only(self) -> View<'a> {
        let [place] = self.places else {
            unreachable!("the layer declares {} parameters", self.places.len())
        };
        self.parts.of(place)
    }

    /// Some of them, counted in the order of declaration: those of a layer within the layer.
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        // Where none are read none are there.
        let is_there = !self.places.is_empty();
        Self { places: if is_there { &self.places[range] } else { &[] }, ..self }
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = View<'a>> {
        self.places.iter().map(move |place| self.parts.of(place))
    }
}

impl<'a> GradientViews<'a> {
    /// `None` where none of the parameters is trained.
    pub(crate) fn of(parts: PartGradients<'a>, places: &'a [Place]) -> Option<Self> {
        places.iter().any(|place| parts.0[place.part].is_some()).then_some(Self { parts, places })
    }

    /// As [`ParameterViews::split`]; `None` for parameters that are frozen or not there, which have no gradient.
    ///
    /// # Panics
    /// If the layer declares others: a bug of the layer.
    pub fn split<const K: usize>(self, lens: [usize; K]) -> [Option<GradientView<'a>>; K] {
        let places = places(self.places, lens);
        let mut number = 0..;
        let mut pieces = self.parts.0.map(|part| {
            let number = number.next();
            let inside = places.map(|place| match place {
                Some(place) if Some(place.part) == number => place.range.clone(),
                _ => 0..0,
            });
            part.map(|GradientView { to, mode }| {
                to.disjoint(inside).map(|to| GradientView { to, mode }).into_iter()
            })
        });
        array::from_fn(|index| {
            let mut here = pieces.each_mut().map(|pieces| pieces.as_mut().and_then(Iterator::next));
            here[places[index]?.part].take()
        })
    }

    /// The gradient of the only parameter, in a layer that is trained.
    ///
    /// # Panics
    /// If the layer declares others, or is frozen: its weight gradient is not asked for then.
    pub fn only(mut self) -> GradientView<'a> {
        let [place] = self.places else {
            unreachable!("the layer declares {} parameters", self.places.len())
        };
        let part = self.parts.0[place.part].take().expect("a layer whose only parameter is frozen is frozen");
        part.range(place.range.clone())
    }

    /// The same elements, all added to.
    pub(crate) fn adding(mut self) -> Self {
        self.parts.0.iter_mut().flatten().for_each(|part| part.mode = WriteMode::Add);
        self
    }

    /// Those of some of the parameters, as [`ParameterViews::range`]; `None` where none of them is trained.
    pub(crate) fn range(&mut self, range: Range<usize>) -> Option<GradientViews<'_>> {
        GradientViews::of(self.parts.reborrow(), &self.places[range])
    }

    /// All of them, one after the other, each with its parameter's number; not those of parameters that are frozen.
    pub fn for_each(&mut self, mut visit: impl FnMut(usize, GradientView<'_>)) {
        for (index, place) in self.places.iter().enumerate() {
            if let Some(part) = &mut self.parts.0[place.part] {
                visit(index, part.reborrow().range(place.range.clone()));
            }
        }
    }

    /// The same elements, for a call that is not the last to write them.
    pub fn reborrow(&mut self) -> GradientViews<'_> {
        GradientViews { parts: self.parts.reborrow(), places: self.places }
    }
}

/// Where the parameters of these lengths lie; those of length 0 lie nowhere.
fn places<const K: usize>(declared: &[Place], lens: [usize; K]) -> [Option<&Place>; K] {
    let mut declared = declared.iter();
    lens.map(|len| {
        let place = if len == 0 { None } else { Some(declared.next().expect("it is declared")) };
        place.inspect(|place| assert_eq!(place.range.len(), len, "a parameter has another length"))
    })
}

/// Where parameters of these lengths lie in one buffer, one behind the other as [`layout`] has it, and where the last ends.
pub(crate) fn packed(lens: impl Iterator<Item = usize>) -> (Vec<Place>, usize) {
    let mut end = 0;
    let place = |len| {
        let start = layout::aligned(end);
        end = start + len;
        Place { part: 0, range: start..end }
    };
    let places = lens.map(place).collect();
    (places, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    fn place(part: usize, range: Range<usize>) -> Place {
        Place { part, range }
    }

    fn counted(len: usize, first: usize) -> Buffer {
        Buffer::from_vec((first..first + len).map(|i| i as f32).collect()).unwrap()
    }

    #[test]
    fn each_parameter_is_found_in_its_part() {
        let (first, mut last) = (counted(40, 0), counted(20, 100));
        let places = [place(0, 0..3), place(2, 16..18), place(0, 16..20)];
        let lens = [3, 0, 2, 4, 0];
        let parts = PartViews([Some(first.view()), None, Some(last.view()), None, None, None]);
        let read = ParameterViews { parts, places: &places };
        let wanted = [&[0.0, 1.0, 2.0][..], &[], &[116.0, 117.0], &[16.0, 17.0, 18.0, 19.0], &[]];
        assert_eq!(read.split(lens).map(|view| view.slice::<f32>()), wanted);
        assert_eq!(read.iter().map(|view| view.len()).collect::<Vec<_>>(), [3, 2, 4]);

        let mut own = counted(40, 0);
        let parts = [(own.view_mut(), WriteMode::Add), (last.view_mut(), WriteMode::Overwrite)];
        let [first, last_part] = parts.map(|(to, mode)| Some(GradientView { to, mode }));
        let parts = PartGradients([first, None, last_part, None, None, None]);
        let mut written = GradientViews { parts, places: &places };
        let mut seen = Vec::new();
        written.for_each(|index, it| seen.push((index, it.mode, it.to.view().slice::<f32>().to_vec())));
        assert_eq!(seen[1], (1, WriteMode::Overwrite, vec![116.0, 117.0]));
        assert_eq!(seen[2], (2, WriteMode::Add, vec![16.0, 17.0, 18.0, 19.0]));
        let split = written.reborrow().split(lens);
        assert_eq!(
            [0, 2, 3].map(|index| split[index].as_ref().unwrap().mode),
            [WriteMode::Add, WriteMode::Overwrite, WriteMode::Add]
        );
        for (view, value) in split.into_iter().flatten().zip([1, 3, 4]) {
            view.to.slice::<f32>().fill(value as f32);
        }
        assert_eq!(own.host()[..4], [1.0, 1.0, 1.0, 3.0]);
        assert_eq!(own.host()[15..21], [15.0, 4.0, 4.0, 4.0, 4.0, 20.0]);
        assert_eq!(last.host()[15..], [115.0, 3.0, 3.0, 118.0, 119.0]);
    }

    #[test]
    #[should_panic(expected = "a parameter has another length")]
    fn a_layer_cannot_split_what_it_has_not_declared() {
        let buffer = counted(8, 0);
        ParameterViews { parts: buffer.view().into(), places: &[place(0, 0..3)] }.split([4]);
    }
}
