//! How the two ends of a connection greet: each proves to the other that it knows the secret of the job, before anything else is said.
//!
//! The process that connects sends [`OPENING`] and 32 random bytes; the coordinator answers with 32 of its own. The process then sends its proof.
//! The coordinator says whether it is right, and sends its own proof if it is. A proof is the HMAC (RFC 2104, with SHA-256) of a label and both
//! numbers, with the secret as its key. Both numbers are new in each greeting, so a recorded greeting proves nothing later. The two labels differ, so
//! no end can be sent its own proof.
//!
//! The process proves first: whoever finds the port gets a random number from the coordinator, and nothing else. In a job without a secret the key is
//! empty. Then programs that do not greet are still dropped, but any program that greets like this is admitted.
//!
//! Nothing after the greeting is encrypted or signed. Whoever can change what hosts send each other can change that too (docs/launch.md).

use std::io::{self, Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use pipezero_files::host::{JobSecret, random};
use sha2::Sha256;

/// Every greeting begins with it, so that other programs are recognised at once.
const OPENING: [u8; 8] = *b"pipezero";
/// The coordinator's answer to a proof.
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 0;

const NUMBER_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

/// The end whose proof it is.
#[derive(Clone, Copy)]
enum Prover {
    Process,
    Coordinator,
}

/// A process has proved that it knows the secret, and awaits the coordinator's proof.
pub(super) struct Proved {
    own: [u8; PROOF_BYTES],
}

/// Why a process has not been greeted.
#[derive(Debug)]
pub(super) enum NotGreeted {
    /// The connection failed or was closed before the end, as where too many greet at once. Another may succeed.
    Unfinished(io::Error),
    /// The two ends have different secrets.
    OtherSecret,
}

impl From<io::Error> for NotGreeted {
    fn from(error: io::Error) -> Self {
        Self::Unfinished(error)
    }
}

/// The coordinator's end, up to the proof of the process.
///
/// # Errors
/// When it does not prove that it knows the secret.
pub(super) fn check(stream: &mut (impl Read + Write), secret: Option<&JobSecret>) -> io::Result<Proved> {
    if read::<{ OPENING.len() }>(stream)? != OPENING {
        return Err(io::Error::other("it does not greet as pipezero does"));
    }
    let of_process = read(stream)?;
    let of_coordinator = random()?;
    stream.write_all(&of_coordinator)?;
    let greeting = Greeting { secret, of_process, of_coordinator };
    if !greeting.is_proof(Prover::Process, &read(stream)?) {
        stream.write_all(&[REFUSED])?;
        return Err(io::Error::other("it does not know the secret of this job"));
    }
    Ok(Proved { own: greeting.proof(Prover::Coordinator) })
}

impl Proved {
    /// The coordinator's end, after the proof of the process.
    ///
    /// # Errors
    /// When the connection fails.
    pub(super) fn answer(self, stream: &mut impl Write) -> io::Result<()> {
        let mut answer = vec![ACCEPTED];
        answer.extend(self.own);
        stream.write_all(&answer)
    }
}

/// The end of the process that connects.
///
/// # Errors
/// When the other end does not prove that it knows the secret, or does not accept this one's proof.
pub(super) fn greet(stream: &mut (impl Read + Write), secret: Option<&JobSecret>) -> Result<(), NotGreeted> {
    let of_process: [u8; NUMBER_BYTES] = random()?;
    let mut opening = OPENING.to_vec();
    opening.extend(of_process);
    stream.write_all(&opening)?;
    let greeting = Greeting { secret, of_process, of_coordinator: read(stream)? };
    stream.write_all(&greeting.proof(Prover::Process))?;
    match read(stream)? {
        [ACCEPTED] if greeting.is_proof(Prover::Coordinator, &read(stream)?) => Ok(()),
        [ACCEPTED | REFUSED] => Err(NotGreeted::OtherSecret),
        _ => Err(io::Error::other("it does not greet as pipezero does").into()),
    }
}

/// The secret and both numbers.
struct Greeting<'a> {
    secret: Option<&'a JobSecret>,
    of_process: [u8; NUMBER_BYTES],
    of_coordinator: [u8; NUMBER_BYTES],
}

impl Greeting<'_> {
    fn proof(&self, of: Prover) -> [u8; PROOF_BYTES] {
        self.digest(of).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    fn is_proof(&self, of: Prover, proof: &[u8; PROOF_BYTES]) -> bool {
        self.digest(of).verify_slice(proof).is_ok()
    }

    fn digest(&self, of: Prover) -> Hmac<Sha256> {
        let key = self.secret.map_or(&[][..], JobSecret::bytes);
        let mut digest =
            <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
        digest.update(match of {
            Prover::Process => b"pipezero control channel: process",
            Prover::Coordinator => b"pipezero control channel: coordinator",
        });
        digest.update(&self.of_process);
        digest.update(&self.of_coordinator);
        digest
    }
}

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    fn secret(text: &str) -> Option<JobSecret> {
        JobSecret::new(text.as_bytes().to_vec())
    }

    fn connection() -> [TcpStream; 2] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [one, listener.accept().unwrap().0]
    }

    /// How the process's end and the coordinator's end.
    fn greeted(
        of_process: Option<JobSecret>,
        of_coordinator: Option<JobSecret>,
    ) -> (Result<(), NotGreeted>, io::Result<()>) {
        let [mut process, mut coordinator] = connection();
        let other =
            thread::spawn(move || check(&mut coordinator, of_coordinator.as_ref())?.answer(&mut coordinator));
        let own = greet(&mut process, of_process.as_ref());
        drop(process);
        (own, other.join().unwrap())
    }

    #[test]
    fn ends_with_one_secret_greet_and_no_others_do() {
        for text in ["", "x", &"long".repeat(100)] {
            let (process, coordinator) = greeted(secret(text), secret(text));
            assert!(process.is_ok() && coordinator.is_ok(), "{text}: {process:?}, {coordinator:?}");
        }
        for [of_process, of_coordinator] in [["", "a"], ["a", ""], ["a", "b"], ["a", "ab"]] {
            let (process, coordinator) = greeted(secret(of_process), secret(of_coordinator));
            assert!(matches!(process, Err(NotGreeted::OtherSecret)), "{process:?}");
            let reason = coordinator.unwrap_err().to_string();
            assert_eq!(reason, "it does not know the secret of this job");
        }
    }

    #[test]
    fn a_coordinator_that_does_not_know_the_secret_is_refused_whatever_it_answers() {
        let own_proof_sent_back = |[of_process, of_coordinator]: [[u8; NUMBER_BYTES]; 2]| {
            let knows = secret("right");
            Greeting { secret: knows.as_ref(), of_process, of_coordinator }.proof(Prover::Process)
        };
        let of_another_secret = |[of_process, of_coordinator]: [[u8; NUMBER_BYTES]; 2]| {
            let knows = secret("wrong");
            Greeting { secret: knows.as_ref(), of_process, of_coordinator }.proof(Prover::Coordinator)
        };
        type Answer = dyn Fn([[u8; NUMBER_BYTES]; 2]) -> [u8; PROOF_BYTES] + Sync;
        for answer in [&own_proof_sent_back as &Answer, &of_another_secret, &|_| [0; PROOF_BYTES]] {
            let [mut process, mut impostor] = connection();
            thread::scope(|scope| {
                scope.spawn(move || {
                    read::<{ OPENING.len() }>(&mut impostor).unwrap();
                    let of_process = read(&mut impostor).unwrap();
                    let number = [7; NUMBER_BYTES];
                    impostor.write_all(&number).unwrap();
                    read::<PROOF_BYTES>(&mut impostor).unwrap();
                    impostor.write_all(&[ACCEPTED]).unwrap();
                    impostor.write_all(&answer([of_process, number])).unwrap();
                });
                let greeted = greet(&mut process, secret("right").as_ref());
                assert!(matches!(greeted, Err(NotGreeted::OtherSecret)), "{greeted:?}");
            });
        }
    }

    /// The HMAC of a case of RFC 4231, and where a proof's parts stand.
    #[test]
    fn a_proof_is_the_hmac_of_its_label_and_both_numbers() {
        let mut digest = <Hmac<Sha256> as KeyInit>::new_from_slice(b"Jefe").unwrap();
        digest.update(b"what do ya want ");
        digest.update(b"for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let found: String = digest.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected);

        let knows = secret("key");
        let proof = |of, numbers: [u8; 2]| {
            let [of_process, of_coordinator] = numbers.map(|number| [number; NUMBER_BYTES]);
            Greeting { secret: knows.as_ref(), of_process, of_coordinator }.proof(of)
        };
        let all = [
            proof(Prover::Process, [1, 2]),
            proof(Prover::Coordinator, [1, 2]),
            proof(Prover::Process, [2, 1]),
            proof(Prover::Process, [1, 3]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one));
        }
    }
}
