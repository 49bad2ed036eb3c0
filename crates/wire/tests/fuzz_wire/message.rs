//! Messages for the decoder: bytes as they are, real messages with damage, and messages grown field by field.

use std::ops::Bound;

use bolero::{Driver, ValueGenerator};
use serde_json::Value;

use crate::grow::Grower;

/// What the bytes are decoded as. A corpus file's first byte is its number here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Outputs,
    Add,
    Abort,
    Utility,
    Value,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Outputs, Self::Add, Self::Abort, Self::Utility, Self::Value];
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

/// Makes messages.
pub(crate) struct Messages {
    /// What vLLM-Omni really sent.
    captured: Vec<Message>,
}

/// The longest message that is taken from chance as it is.
const RAW_BYTES_MAX: usize = 4096;

const CAPTURED: [&str; 3] = [
    include_str!("../captured/vllm-omni-0.30.0.json"),
    include_str!("../captured/vllm-omni-0.31.0rc1.json"),
    include_str!("../captured/vllm-omni-0.32.0rc1.json"),
];

impl Messages {
    pub(crate) fn captured() -> Self {
        let mut captured = Vec::new();
        for text in CAPTURED {
            let file: Value = serde_json::from_str(text).unwrap();
            let stories = file["stories"].as_array().unwrap();
            for step in stories.iter().flat_map(|story| story["steps"].as_array().unwrap()) {
                for (name, kind) in
                    [("request", Kind::Add), ("batch", Kind::Outputs), ("stamped", Kind::Outputs)]
                {
                    if let Some(hex) = step[name].as_str() {
                        captured.push(Message { kind, bytes: from_hex(hex) });
                    }
                }
            }
        }
        assert!(captured.len() > 100, "only {} captured messages", captured.len());
        Self { captured }
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

impl ValueGenerator for Messages {
    type Output = Message;

    /// Two bytes choose, the rest is what was chosen: so a corpus file of kind, 0 and a message is that message.
    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Message> {
        let kind = Kind::ALL[usize::from(byte(driver)?) % Kind::ALL.len()];
        match byte(driver)? {
            0..32 => {
                let bytes = driver.gen_from_bytes(
                    || (0, Some(RAW_BYTES_MAX)),
                    |bytes| Some((bytes.len(), bytes.to_vec())),
                )?;
                Some(Message { kind, bytes })
            }
            32..112 => {
                let original = &self.captured[below(driver, self.captured.len())?];
                let mut bytes = original.bytes.clone();
                for _ in 0..byte(driver)? % 9 {
                    damage(driver, &mut bytes)?;
                }
                Some(Message { kind: original.kind, bytes })
            }
            112.. => {
                let bytes = Grower::new(driver).message(kind)?;
                Some(Message { kind, bytes })
            }
        }
    }
}

/// Does one thing to a message that a faulty or hostile sender might.
fn damage<D: Driver>(driver: &mut D, bytes: &mut Vec<u8>) -> Option<()> {
    let at = below(driver, bytes.len() + 1)?;
    let end = (at + below(driver, 12)?).min(bytes.len());
    match byte(driver)? % 8 {
        0 if at < bytes.len() => bytes[at] = byte(driver)?,
        1 if at < bytes.len() => bytes[at] ^= 1 << (byte(driver)? % 8),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let copy = bytes[at..end].to_vec();
            let to = below(driver, bytes.len() + 1)?;
            bytes.splice(to..to, copy);
        }
        // A length far beyond what follows: str, bin, ext, array and map of 32 bits.
        5 => {
            let marker = [0xdb, 0xc6, 0xc9, 0xdd, 0xdf][below(driver, 5)?];
            let length = driver.gen_u32(Bound::Unbounded, Bound::Unbounded)?.to_be_bytes();
            bytes.splice(at..end, [&[marker][..], &length].concat());
        }
        // A value of another type, or one more or less of them.
        _ => {
            let value = Grower::new(driver).one_value()?;
            bytes.splice(at..end, value);
        }
    }
    Some(())
}

pub(crate) fn byte<D: Driver>(driver: &mut D) -> Option<u8> {
    driver.gen_u8(Bound::Unbounded, Bound::Unbounded)
}

/// A number below `bound`, which is not 0.
pub(crate) fn below<D: Driver>(driver: &mut D, bound: usize) -> Option<usize> {
    driver.gen_usize(Bound::Unbounded, Bound::Excluded(&bound))
}
