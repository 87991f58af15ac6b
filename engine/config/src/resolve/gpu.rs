//! Whether ranks compute on GPUs, and what these do not take.

use pipezero_files::json::shorten;
use pipezero_models::queue::HEAD_SIZE_MAX;

use crate::kind::Auto;
use crate::raw::RawRun;
use crate::resolved::{BackendName, DeviceName, ModelConfig};
use crate::resources::Resources;

/// Whether ranks are to compute on GPUs where the backend takes them: as the file says, and with "auto" where the host has some.
pub(super) fn is_wanted(raw: &RawRun, resources: Resources) -> bool {
    let written = raw.device.given().and_then(Auto::value);
    written.map_or_else(|| resources.gpu.is_there(), |device| device == DeviceName::Cuda)
}

/// What ranks compute on: with "auto" the host's GPUs, if it has any and the backend takes them.
pub(super) fn device(raw: &RawRun, backend: Option<BackendName>, resources: Resources) -> Option<DeviceName> {
    let (on_cpus, on_gpus) = (backend == Some(BackendName::Mpi), backend == Some(BackendName::Nccl));
    let device = raw.device.auto_or_else(|| match on_gpus || !on_cpus && resources.gpu.is_there() {
        true => DeviceName::Cuda,
        false => DeviceName::Cpu,
    })?;
    if device == DeviceName::Cuda && on_cpus {
        let rule = "ranks that are processes of MPI compute on CPUs";
        return raw.device.broken("\"cuda\"", rule, "use \"cpu\", or `comm.backend` \"threads\"");
    }
    if device == DeviceName::Cpu && on_gpus {
        let rule = "`comm.backend` \"nccl\" connects GPUs";
        return raw.device.broken("\"cpu\"", rule, "use \"cuda\", or `comm.backend` \"threads\"");
    }
    Some(device)
}

/// Reports heads that are too large for the device; `None` where they are, or are not known.
pub(super) fn check(raw: &RawRun, device: Option<DeviceName>, model: Option<&ModelConfig>) -> Option<()> {
    if device? == DeviceName::Cpu {
        return Some(());
    }
    let (gpt, head_size) = match model? {
        ModelConfig::Gpt2(gpt) => (gpt, gpt.hidden_size / gpt.num_attention_heads),
        ModelConfig::Llama(llama) => (&llama.gpt, llama.kv_channels),
        ModelConfig::Mlp(_) | ModelConfig::Timed(_) => return Some(()),
    };
    if head_size <= HEAD_SIZE_MAX {
        return Some(());
    }
    if raw.model.kv_channels.is_written() {
        let rule = format!("a GPU takes heads of at most {HEAD_SIZE_MAX} elements");
        return raw.model.kv_channels.broken(head_size, rule, "use fewer, or `device` \"cpu\"");
    }
    let rule = format!("its heads are of {head_size} elements, and a GPU takes at most {HEAD_SIZE_MAX}");
    if let Some(folder) = raw.model.from.given() {
        let repair = "name another model, or use `device` \"cpu\"";
        return raw.model.from.broken(format!("\"{}\"", shorten(&folder)), rule, repair);
    }
    let rule = format!(
        "`model.hidden_size` is {}: heads of {head_size} elements, and a GPU takes at most {HEAD_SIZE_MAX}",
        gpt.hidden_size
    );
    raw.model.num_attention_heads.broken(gpt.num_attention_heads, rule, "use more, or `device` \"cpu\"")
}
