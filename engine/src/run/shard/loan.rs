//! A thing that is lent to an operation under way and comes back when the operation has ended.

/// A thing that may be away. Using it while it is away would be a mistake in the program, which the checker excludes.
#[derive(Debug)]
pub(crate) struct Loan<T>(Option<T>);

impl<T> Loan<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self(Some(thing))
    }

    pub(crate) fn lend(&mut self) -> T {
        self.0.take().expect("a checked program lends nothing twice")
    }

    pub(crate) fn give_back(&mut self, thing: T) {
        assert!(self.0.is_none(), "only what was lent comes back");
        self.0 = Some(thing);
    }

    pub(crate) fn get(&self) -> &T {
        self.0.as_ref().expect("a checked program does not use what is lent")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a checked program does not use what is lent")
    }
}
