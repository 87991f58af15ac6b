//! The edge between the host's memory and a queue's.

use super::queue::CudaQueue;
use super::transfers;
use crate::buffer::Buffer;
use crate::element::{Element, with_element};
use crate::error::ModelError;
use crate::memory::{View, ViewMut};
use crate::queue::HostKernel;

impl CudaQueue {
    /// Copies elements from the host.
    pub(super) fn upload_elements<E: Element>(&self, values: &[E], to: &ViewMut<'_>) {
        assert_eq!((values.len(), E::TYPE), (to.len(), to.element_type()), "elements of an upload");
        // SAFETY: the view has these elements.
        self.ask("cuMemcpyHtoDAsync", |stream| unsafe {
            transfers::upload(stream, values, self.address(to.view()))
        });
    }

    /// Copies elements to the host, and waits for them.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    pub(super) fn download_elements<E: Element>(
        &self,
        from: View<'_>,
        values: &mut [E],
    ) -> Result<(), ModelError> {
        assert_eq!((values.len(), E::TYPE), (from.len(), from.element_type()), "elements of a download");
        // SAFETY: the view has these elements.
        self.ask("cuMemcpyDtoHAsync", |stream| unsafe {
            transfers::download(stream, self.address(from), values)
        });
        self.device.check()
    }

    /// The elements in the host's memory; `None` where that has no room, or the device has failed.
    fn copy_on_host(&self, view: View<'_>) -> Option<Buffer> {
        let mut here = Buffer::zeros_of(view.len(), view.element_type())
            .map_err(|error| self.device.fail("a kernel of the host", &error))
            .ok()?;
        with_element!(view.element_type(), Of => self.download_elements::<Of>(view, here.host_mut_as()))
            .ok()?;
        Some(here)
    }

    /// Copies what a kernel of the host reads and writes there, runs it, and copies what it wrote back.
    pub(super) fn run_on_host(&self, reads: &[View<'_>], writes: &[ViewMut<'_>], kernel: HostKernel) {
        let copies = |view: View<'_>| self.copy_on_host(view);
        let reads_here: Option<Vec<Buffer>> = reads.iter().map(|&view| copies(view)).collect();
        let writes_here: Option<Vec<Buffer>> = writes.iter().map(|view| copies(view.view())).collect();
        let (Some(reads_here), Some(mut writes_here)) = (reads_here, writes_here) else { return };
        let views: Vec<View<'_>> = reads_here.iter().map(Buffer::view).collect();
        kernel(&views, writes_here.iter_mut().map(Buffer::view_mut).collect());
        for (here, there) in writes_here.iter().zip(writes) {
            with_element!(here.element_type(), Of => self.upload_elements::<Of>(here.host_as(), there));
        }
    }
}
