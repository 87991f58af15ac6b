//! Several hosts on one machine: network namespaces with addresses of their own, connected by a switch or by a slow line.

mod in_a_job;
mod links;
mod slow;
mod training;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use tempfile::TempDir;

/// Where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";

/// Hosts, and what connects them. Dropped, they are gone, with all that runs on them.
#[derive(Debug)]
struct Hosts {
    /// With which the names of the namespaces begin.
    name: String,
    num_hosts: usize,
    folder: TempDir,
    forwarder: Option<Child>,
}

/// What is between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// A switch.
    Switch,
    /// Between two hosts, a line that delivers each frame so many milliseconds late.
    Late { ms: u64 },
    /// A switch to which each host sends so many millions of bits a second.
    Limited { mbit: u64 },
}

impl Hosts {
    /// So many hosts; `None` where this machine does not permit namespaces, which is said.
    fn new(num_hosts: usize, line: Line) -> Option<Self> {
        static NUM_MADE: AtomicUsize = AtomicUsize::new(0);
        let number = NUM_MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("pz{}-{number}", std::process::id());
        let hosts = Self { name, num_hosts, folder: tempfile::tempdir().expect("a folder"), forwarder: None };
        match hosts.connected(line) {
            Ok(hosts) => Some(hosts),
            Err(reason) if env::var_os("PIPEZERO_SKIP_NOTHING").is_none() => {
                println!(
                    "skipped: this machine does not permit network namespaces, or no limits of rates in them: {reason}"
                );
                None
            }
            Err(reason) => panic!("network namespaces: {reason}"),
        }
    }

    fn connected(mut self, line: Line) -> Result<Self, String> {
        let net = self.net();
        ip(&format!("netns add {net}"))?;
        let is_switched = !matches!(line, Line::Late { .. });
        if is_switched {
            ip(&format!("-n {net} link add switch type bridge"))?;
            ip(&format!("-n {net} link set switch up"))?;
        }
        for host in 0..self.num_hosts {
            let (namespace, address) = (self.host(host), address(host));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add port{host} netns {net} type veth peer name eth0 netns {namespace}"))?;
            if is_switched {
                ip(&format!("-n {net} link set port{host} master switch"))?;
            }
            ip(&format!("-n {net} link set port{host} up"))?;
            ip(&format!("-n {namespace} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            if let Line::Limited { mbit } = line {
                // A queue of a second, so that nothing is dropped.
                ip(&format!(
                    "netns exec {namespace} tc qdisc add dev eth0 root tbf rate {mbit}mbit burst 32kb latency 1s"
                ))?;
            }
        }
        if let Line::Late { ms } = line {
            let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("mpi/hosts/late_line.py");
            let mut forwarder = Command::new("ip");
            forwarder.args(["netns", "exec", &net, "python3"]).arg(script).args([
                "port0",
                "port1",
                &ms.to_string(),
            ]);
            self.forwarder = Some(forwarder.spawn().map_err(|error| error.to_string())?);
        }
        Ok(self)
    }

    /// The namespace of what connects the hosts.
    fn net(&self) -> String {
        format!("{}-net", self.name)
    }

    /// The namespace of a host.
    fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    /// A job with as many processes on each host, started on the first of them.
    fn job(&self, processes_per_host: usize, command: &[&str]) -> Command {
        let agent = self.folder.path().join("agent");
        // What `mpirun` starts on another host by; names of hosts are their addresses.
        let script = format!(
            "#!/bin/sh\nhost={}-$((${{1##*.}} - 1))\nshift\nexec ip netns exec $host unshare --uts sh -c \"hostname $host; $*\"\n",
            self.name
        );
        fs::write(&agent, script).expect("a folder");
        assert!(Command::new("chmod").arg("+x").arg(&agent).status().expect("chmod").success());
        let slots: Vec<String> =
            (0..self.num_hosts).map(|host| format!("{}:{processes_per_host}", address(host))).collect();
        let first = self.host(0);
        // MPI's files go with the folder: processes of a host that is lost do not remove theirs.
        let folder = self.folder.path().to_str().expect("a name in UTF-8");
        let mut job = Command::new("ip");
        job.args([
            "netns",
            "exec",
            &first,
            "unshare",
            "--uts",
            "sh",
            "-c",
            "hostname \"$0\"; exec \"$@\"",
            &first,
        ]);
        job.args(["mpirun", "--enable-recovery", "--bind-to", "none", "--host", &slots.join(",")]);
        job.args(["-n", &(self.num_hosts * processes_per_host).to_string()]);
        for (name, value) in [
            ("plm_rsh_agent", agent.to_str().expect("a name in UTF-8")),
            ("btl", "vader,tcp,self"),
            ("btl_tcp_if_include", "eth0"),
            ("oob_tcp_if_include", "eth0"),
            ("btl_vader_single_copy_mechanism", "none"),
            ("btl_vader_backing_directory", folder),
            ("orte_tmpdir_base", folder),
        ] {
            job.args(["--mca", name, value]);
        }
        job.args(["-x", &format!("MASTER_ADDR={}", address(0))]);
        job.args(command).env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        job.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        job
    }

    /// Ends all that runs on the hosts.
    fn end_processes(&self) {
        let namespaces = (0..self.num_hosts).map(|host| self.host(host)).chain([self.net()]);
        for namespace in namespaces.filter(|name| PathBuf::from(NAMESPACES).join(name).exists()) {
            let pids = Command::new("ip").args(["netns", "pids", &namespace]).output().expect("ip");
            for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
                // It may have ended meanwhile.
                let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
            }
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.end_processes();
        if let Some(forwarder) = &mut self.forwarder {
            let _ = forwarder.kill();
            let _ = forwarder.wait();
        }
        for namespace in (0..self.num_hosts).map(|host| self.host(host)).chain([self.net()]) {
            let _ = ip(&format!("netns del {namespace}"));
        }
    }
}

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

/// Runs `ip` with these words.
fn ip(words: &str) -> Result<(), String> {
    let done = Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}
