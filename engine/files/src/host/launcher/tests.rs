use super::*;

fn launched(variables: &[(&str, &str)]) -> Result<Option<LaunchedProcess>, LauncherError> {
    LaunchedProcess::among(&|name| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, text)| (*text).to_owned())
    })
}

fn master(host: &str, port: Option<u16>) -> Option<Master> {
    Some(Master { host: host.to_owned(), port })
}

const TORCHRUN: [(&str, &str); 6] = [
    ("RANK", "5"),
    ("WORLD_SIZE", "12"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "4"),
    ("MASTER_ADDR", "10.0.0.7"),
    ("MASTER_PORT", "29500"),
];
const OPEN_MPI: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
];
const SLURM: [(&str, &str); 8] = [
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "6"),
    ("SLURM_STEP_NUM_TASKS", "11"),
    ("SLURM_LOCALID", "2"),
    ("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"),
    ("SLURM_NODEID", "1"),
    ("SLURM_STEP_NODELIST", "node[03-05]"),
    ("SLURM_JOB_ID", "1234567"),
];

#[test]
fn each_launcher_says_rank_place_and_address_in_its_own_words() {
    let local = |rank, size| Some(Local { rank, size });
    let of = |launcher, rank, size, local, master| {
        Ok(Some(LaunchedProcess { launcher, rank, size, local, master }))
    };
    assert_eq!(
        launched(&TORCHRUN),
        of(Launcher::Torchrun, 5, 12, local(1, 4), master("10.0.0.7", Some(29501)))
    );
    assert_eq!(launched(&OPEN_MPI), of(Launcher::OpenMpi, 1, 4, local(1, 2), None));
    assert_eq!(launched(&[("PMI_RANK", "3"), ("PMI_SIZE", "4")]), of(Launcher::Pmi, 3, 4, None, None));
    assert_eq!(launched(&SLURM), of(Launcher::Slurm, 6, 11, local(2, 4), master("node03", Some(24567))));
    let mut pmi = SLURM.to_vec();
    pmi.extend([("PMI_RANK", "6"), ("PMI_SIZE", "11")]);
    assert_eq!(launched(&pmi), of(Launcher::Pmi, 6, 11, local(2, 4), master("node03", Some(24567))));
    assert_eq!(launched(&[]), Ok(None));
}

#[test]
fn the_innermost_launcher_counts() {
    let all =
        |groups: &[&[(&'static str, &'static str)]]| launched(&groups.concat()).unwrap().unwrap().launcher;
    assert_eq!(all(&[&SLURM, &OPEN_MPI]), Launcher::OpenMpi);
    assert_eq!(all(&[&SLURM, &OPEN_MPI, &TORCHRUN]), Launcher::Torchrun);
    assert_eq!(all(&[&SLURM, &TORCHRUN]), Launcher::Torchrun);
}

/// srun sets the number of a step's tasks twice, and nobody guesses where both are missing.
#[test]
fn a_step_without_its_number_of_tasks_is_no_single_process() {
    let with = |changes: &[(&'static str, &'static str)]| {
        let mut variables = changes.to_vec();
        variables.extend(SLURM.iter().filter(|(name, _)| *name != "SLURM_STEP_NUM_TASKS"));
        launched(&variables)
    };
    assert_eq!(
        with(&[]).unwrap_err().to_string(),
        "the environment variable SLURM_STEP_NUM_TASKS is not set, but others of srun are: start pipezero by srun, or unset those"
    );
    assert_eq!(with(&[("SLURM_NTASKS", "11")]), launched(&SLURM));
    assert_eq!(
        with(&[("SLURM_NTASKS", "6")]).unwrap_err().to_string(),
        "SLURM_PROCID is 6, but SLURM_NTASKS is 6: ranks count from 0"
    );
    let mut torchrun = TORCHRUN.to_vec();
    torchrun.extend([("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "16")]);
    let error = launched(&torchrun).unwrap_err().to_string();
    assert!(error.starts_with("WORLD_SIZE is 12, but SLURM_NTASKS is 16, so"), "{error}");
}

/// A batch script of SLURM runs outside its steps, and a pod is told a rank before torchrun starts.
#[test]
fn variables_of_what_surrounds_a_process_make_it_no_rank() {
    assert_eq!(launched(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")]), Ok(None));
    // The shell of an `salloc` that starts it on the job's first host.
    let shell = [("SLURM_STEP_ID", "4294967290"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
    assert_eq!(launched(&shell), Ok(None));
    assert_eq!(launched(&[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a")]), Ok(None));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let with = |changes: &[(&'static str, &'static str)]| {
        let mut variables = changes.to_vec();
        variables
            .extend(TORCHRUN.iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name)));
        variables.retain(|(_, text)| *text != "unset");
        launched(&variables).unwrap_err().to_string()
    };
    for (changes, expected) in [
        (("RANK", "12"), "RANK is 12, but WORLD_SIZE is 12: ranks count from 0"),
        (("LOCAL_RANK", "4"), "LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4: ranks count from 0"),
        (
            ("RANK", "-1"),
            "the environment variable RANK is \"-1\", but it must be a whole number: it is the launcher that sets it",
        ),
        (
            ("WORLD_SIZE", "unset"),
            "the environment variable WORLD_SIZE is not set, but others of torchrun are: start pipezero by torchrun, or unset those",
        ),
        (
            ("MASTER_ADDR", "unset"),
            "MASTER_ADDR is not set: set it in every process to the name or address of the host of rank 0, as torchrun does",
        ),
        (
            ("MASTER_ADDR", "http://a:80"),
            "MASTER_ADDR is \"http://a:80\", which is neither the name of a host nor an address",
        ),
        (
            ("MASTER_PORT", "65535"),
            "MASTER_PORT is 65535, but pipezero takes the port behind it, which must be below 65536: use a lower one, or set `comm.port`",
        ),
    ] {
        assert_eq!(with(&[changes]), expected, "{changes:?}");
    }
    let mut left_over = OPEN_MPI.to_vec();
    left_over.extend([("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")]);
    assert_eq!(
        launched(&left_over).unwrap_err().to_string(),
        "WORLD_SIZE is 1, but OMPI_COMM_WORLD_SIZE is 4, so the first is left from another job: unset RANK, WORLD_SIZE and what was set with them"
    );
    assert!(launched(&[("OMPI_COMM_WORLD_RANK", "4"), ("OMPI_COMM_WORLD_SIZE", "4")]).is_err());
    assert!(launched(&[("PMI_RANK", "1")]).is_err());
}

#[test]
fn the_first_host_of_a_list_has_rank_0() {
    for (list, expected) in [
        ("node1", "node1"),
        ("node1,node2", "node1"),
        ("node[1-4]", "node1"),
        ("node[007,009-012],login", "node007"),
        ("gpu-a[2,4].cluster.org", "gpu-a2.cluster.org"),
        ("rack[1-2]node[08-09]", "rack1node08"),
        ("login,node[1-2]", "login"),
    ] {
        let host = slurm::first_host(&|name| (name == "SLURM_STEP_NODELIST").then(|| list.to_owned()));
        assert_eq!(host.as_deref(), Some(expected), "{list}");
    }
}

#[test]
fn tasks_are_counted_on_each_host_of_the_list() {
    for (node, expected) in [("0", Some(4)), ("1", Some(4)), ("2", Some(3)), ("3", None)] {
        let tasks = slurm::tasks_on_node(&|name| match name {
            "SLURM_NODEID" => Some(node.to_owned()),
            "SLURM_STEP_TASKS_PER_NODE" => Some("4(x2),3".to_owned()),
            _ => None,
        });
        assert_eq!(tasks, expected, "host {node}");
    }
}
