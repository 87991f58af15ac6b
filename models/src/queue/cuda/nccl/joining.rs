//! How communicators come to be: all members call, and each asks until it is done.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};

use super::api::{Api, IN_PROGRESS, SUCCESS, api};
use super::communicator::NcclCommunicator;
use super::error::NoNccl;
use super::{Cuda, Shared, said};

/// By which the members of a communicator find each other: one of them makes it, and gives it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclId(pub [u8; Self::NUM_BYTES]);

impl NcclId {
    /// Bytes of an id.
    pub const NUM_BYTES: usize = 128;

    /// A new one. This process then listens for the members that use it.
    ///
    /// # Errors
    /// When there is no library, or it refuses.
    pub fn new() -> Result<Self, NoNccl> {
        let api = api()?;
        let mut id = ncclUniqueId { internal: [0; Self::NUM_BYTES] };
        // SAFETY: the id is written before the call returns.
        let status = unsafe { (api.get_unique_id)(&raw mut id) };
        api.check("ncclGetUniqueId", status)?;
        Ok(Self(id.internal.map(c_char::cast_unsigned)))
    }
}

/// A communicator that its members are making: it is there once all of them have called.
#[derive(Debug)]
#[must_use = "a communicator is there once `poll` says so"]
pub struct Joining {
    api: &'static Api,
    device: Arc<Shared>,
    /// The one that says how far it is: itself, or the one that it is split from.
    asked: ncclComm_t,
    /// Where the library puts it, at the latest when it is done.
    made: Box<ncclComm_t>,
    rank: usize,
    size: usize,
}

// SAFETY: communicators may be used by one thread after another.
unsafe impl Send for Joining {}

impl Joining {
    /// Begins to make the communicator of this id. `num_ctas` bounds the multiprocessors that one of its operations takes.
    fn first(
        device: &Arc<Shared>,
        id: &NcclId,
        [rank, size]: [usize; 2],
        num_ctas: usize,
    ) -> Result<Self, NoNccl> {
        let api = api()?;
        bind(device)?;
        let (mut config, mut made) = (config(num_ctas), Box::new(null_mut()));
        let id = ncclUniqueId { internal: id.0.map(u8::cast_signed) };
        // SAFETY: the context is bound; what is pointed to is read before the call returns, but for the box, which lives as long as this.
        let status =
            unsafe { (api.init_rank)(&raw mut *made, number(size), id, number(rank), &raw mut config) };
        api.check("ncclCommInitRankConfig", status)?;
        Ok(Self { api, device: Arc::clone(device), asked: *made, made, rank, size })
    }

    /// Whether all members have called, and the library is done.
    ///
    /// # Errors
    /// When it is not going to be.
    pub fn poll(&self) -> Result<bool, NoNccl> {
        let mut state = SUCCESS;
        // SAFETY: the communicator is alive, and the number is written before the call returns.
        let status = unsafe { (self.api.async_error)(self.asked, &raw mut state) };
        self.api.check("ncclCommGetAsyncError", status)?;
        self.api.check("making a communicator", state)?;
        Ok(state != IN_PROGRESS)
    }

    /// The communicator, once [`Joining::poll`] has said that it is there; `None` of a rank that named no color. None of its waits for other
    /// members is longer than `timeout`.
    ///
    /// # Errors
    /// When the device gives it no stream.
    pub fn finish(self, timeout: Duration) -> Result<Option<NcclCommunicator>, NoNccl> {
        let handle = *self.made;
        if handle.is_null() {
            return Ok(None);
        }
        NcclCommunicator::new(self.api, self.device, handle, [self.rank, self.size], timeout).map(Some)
    }
}

impl Cuda {
    /// Begins to make a communicator in which this device is that of `rank`, and of which each operation takes so many multiprocessors at
    /// most. All members call it.
    ///
    /// # Errors
    /// When there is no NCCL, or it refuses.
    pub fn join_nccl(
        &self,
        id: &NcclId,
        [rank, size]: [usize; 2],
        num_ctas: usize,
    ) -> Result<Joining, NoNccl> {
        Joining::first(&self.shared, id, [rank, size], num_ctas)
    }
}

impl NcclCommunicator {
    /// Begins to split it, which all its members do: those that name one color become a communicator of `size`, in which this one is
    /// `rank`. One split is finished before the next begins.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn split(
        &self,
        color: Option<usize>,
        [rank, size]: [usize; 2],
        num_ctas: usize,
    ) -> Result<Joining, NoNccl> {
        /// `NCCL_SPLIT_NOCOLOR`
        const NO_COLOR: c_int = -1;
        let (api, device, asked) = (self.api, self.device(), self.handle());
        bind(device)?;
        let (mut config, mut made) = (config(num_ctas), Box::new(null_mut()));
        let color = color.map_or(NO_COLOR, number);
        // SAFETY: the context is bound; what is pointed to is read before the call returns, but for the box, which lives as long as what is made of it.
        let status = unsafe { (api.split)(asked, color, number(rank), &raw mut *made, &raw mut config) };
        api.check("ncclCommSplit", status)?;
        Ok(Joining { api, device: Arc::clone(device), asked, made, rank, size })
    }
}

fn bind(device: &Shared) -> Result<(), NoNccl> {
    let refused = |error| NoNccl::Refused { call: "cuCtxSetCurrent", reason: said(&error) };
    device.context.bind_to_thread().map_err(refused)
}

/// Non-blocking, and with at most so many CTAs; the rest is the library's choice (`NCCL_CONFIG_INITIALIZER` of nccl.h).
fn config(num_ctas: usize) -> ncclConfig_t {
    const UNDEFINED: c_int = c_int::MIN;
    const MAGIC: c_uint = 0xcafe_beef;
    const VERSION: c_uint = 2 * 10_000 + 28 * 100 + 9;
    ncclConfig_t {
        size: size_of::<ncclConfig_t>(),
        magic: MAGIC,
        version: VERSION,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: number(num_ctas),
        netName: null_mut(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: null_mut(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
    }
}

fn number(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
