//! Something that is lent to a started operation and given back when the operation completes.

/// A value that may be lent. To use it meanwhile would be a mistake in the program, which the checker excludes.
#[derive(Debug)]
pub struct Lendable<T>(Option<T>);

impl<T> Lendable<T> {
    /// A value that is not lent.
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Takes the value out.
    ///
    /// # Panics
    /// If it is lent.
    pub fn lend(&mut self) -> T {
        self.0.take().expect("a checked program lends nothing twice")
    }

    /// Puts a value back.
    ///
    /// # Panics
    /// If none is lent.
    pub fn give_back(&mut self, value: T) {
        assert!(self.0.is_none(), "only what was lent is given back");
        self.0 = Some(value);
    }

    /// Whether the value is out.
    pub fn is_lent(&self) -> bool {
        self.0.is_none()
    }

    /// The value.
    ///
    /// # Panics
    /// If it is lent.
    pub fn get(&self) -> &T {
        self.0.as_ref().expect("a checked program does not use what is lent")
    }

    /// The value, to change it.
    ///
    /// # Panics
    /// If it is lent.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a checked program does not use what is lent")
    }
}
