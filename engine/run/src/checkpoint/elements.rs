//! Elements as the bytes of a file, which are little-endian, as those of every machine that this program is built for.

const _: () = assert!(cfg!(target_endian = "little"), "files of elements are little-endian");

/// The bytes of elements.
pub(crate) fn bytes_of(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// The bytes of elements, to be read.
pub(super) fn bytes_of_mut(values: &mut [f32]) -> &mut [u8] {
    bytemuck::cast_slice_mut(values)
}
