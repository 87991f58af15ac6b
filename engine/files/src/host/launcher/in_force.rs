//! The variables that decide how processes of a job start, find each other and share cores, for a report.

use std::env;

use super::Launcher;

/// Beside those by which a process knows its rank.
const OTHERS: [&str; 16] = [
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_NTASKS",
    "OMPI_MCA_btl",
    "OMPI_MCA_pml",
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_btl_vader_single_copy_mechanism",
    "OMPI_MCA_hwloc_base_binding_policy",
    "OMPI_MCA_rmaps_base_mapping_policy",
    "OMPI_MCA_rmaps_base_oversubscribe",
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "PIPEZERO_LOG",
];

/// The variables of launchers that are set, with their values. None of them holds a secret.
pub fn variables_in_force() -> Vec<(String, String)> {
    // Without the ranks: they stand beside them.
    let sizes = Launcher::ALL.iter().flat_map(|launcher| {
        let [_, size, _, local_size] = launcher.names();
        [size, local_size]
    });
    let set = sizes.chain(OTHERS).filter_map(|name| Some((name.to_owned(), env::var(name).ok()?)));
    set.collect()
}
