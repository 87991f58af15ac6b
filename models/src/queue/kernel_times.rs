//! How long each kernel of a device took.

use std::collections::HashMap;

/// The calls of one kernel, at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// Its name, as the device has it: of a kernel's source, or of a library's call.
    pub kernel: String,
    /// Its element types and size: of a kernel's source how many blocks it has and how many threads each of them; of a product `rows x columns x inner`.
    pub size: String,
    /// How often it was called.
    pub num_calls: u64,
    /// Nanoseconds of all calls together, from when the device came to a call to when it had done it.
    pub ns: u64,
}

impl KernelTime {
    /// Adds up those of equal name and size, in the order of their first ones.
    pub fn by_size(times: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let (mut sums, mut places) = (Vec::<Self>::new(), HashMap::new());
        for time in times {
            let place = *places.entry((time.kernel.clone(), time.size.clone())).or_insert(sums.len());
            match sums.get_mut(place) {
                Some(sum) => {
                    sum.num_calls += time.num_calls;
                    sum.ns += time.ns;
                }
                None => sums.push(time),
            }
        }
        sums
    }
}
