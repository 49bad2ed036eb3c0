//! Messages grown field by field, mostly of the types that the decoder takes, so that a wrong one can stand anywhere.

mod values;

use bolero::Driver;

use crate::message::{Kind, below, byte};

/// What a field takes.
#[derive(Clone, Copy)]
enum Want {
    Any,
    Text,
    Bool,
    Unsigned,
    Signed,
    Float,
    FinishReason,
    StopReason,
    Tokens,
    Ids,
    Events,
    Headers,
    Params,
    Outputs,
    /// Nil, or the other.
    Optional(&'static Want),
}

use Want::*;

const BATCH: [Want; 9] =
    [Unsigned, Outputs, Any, Float, Any, Optional(&Ids), Optional(&Unsigned), Optional(&Unsigned), Any];

const OUTPUT: [Want; 25] = [
    Text,
    Tokens,
    Any,
    Any,
    Any,
    Optional(&FinishReason),
    Optional(&StopReason),
    Optional(&Events),
    Any,
    Any,
    Any,
    Any,
    Any,
    Unsigned,
    Any,
    Any,
    Any,
    PROMPT_TOKEN_ID_LOGPROBS,
    Any,
    Any,
    Optional(&Bool),
    Optional(&Unsigned),
    Optional(&Unsigned),
    Bool,
    Optional(&Float),
];
/// The field that 0.30 does not have.
const PROMPT_TOKEN_ID_LOGPROBS: Want = Any;
const OUTPUT_LENGTHS: [usize; 6] = [17, 18, 22, 23, 24, 25];

const REQUEST: [Want; 25] = [
    Text,
    Optional(&Tokens),
    Any,
    Optional(&Params),
    Any,
    Float,
    Any,
    Any,
    Any,
    Any,
    Any,
    Unsigned,
    Unsigned,
    Signed,
    Optional(&Headers),
    Bool,
    Optional(&Text),
    Any,
    Any,
    Bool,
    Optional(&Text),
    Any,
    Any,
    Any,
    Any,
];

/// The deepest that a grown value nests. (Deeper ones are a test of their own.)
const DEPTH_MAX: usize = 6;
/// The longest that a message grows; what was begun is finished with small values.
const BYTES_MAX: usize = 64 << 10;

pub(crate) struct Grower<'a, D> {
    driver: &'a mut D,
    bytes: Vec<u8>,
}

impl<'a, D: Driver> Grower<'a, D> {
    pub(crate) fn new(driver: &'a mut D) -> Self {
        Self { driver, bytes: Vec::new() }
    }

    pub(crate) fn message(mut self, kind: Kind) -> Option<Vec<u8>> {
        match kind {
            Kind::Outputs => self.fields(&BATCH, &[8, 9])?,
            Kind::Add => self.fields(&REQUEST, &[24, 25])?,
            Kind::Abort => self.exactly(Ids)?,
            Kind::Utility => self.fields(&[Unsigned, Signed, Text, Any], &[4])?,
            Kind::Value => self.value(0)?,
        }
        // Something after it, now and then.
        if self.one_in(32)? {
            self.value(0)?;
        }
        Some(self.bytes)
    }

    pub(crate) fn one_value(mut self) -> Option<Vec<u8>> {
        self.value(0)?;
        Some(self.bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        byte(self.driver)
    }

    fn one_in(&mut self, times: usize) -> Option<bool> {
        Some(below(self.driver, times)? == 0)
    }

    /// An array of these fields: as many as a known version has, or a few more, or fewer.
    fn fields(&mut self, wants: &[Want], lengths: &[usize]) -> Option<()> {
        let length = match self.byte()? % 16 {
            0 => below(self.driver, wants.len() + 1)?,
            1 => wants.len() + below(self.driver, 4)?,
            _ => lengths[below(self.driver, lengths.len())?],
        };
        self.head(length, [(0x90, 16), (0xdc, 1 << 16)], 0xdd)?;
        for place in 0..length {
            self.want(wants.get(place).copied().unwrap_or(Any))?;
        }
        Some(())
    }

    /// A container's marker with a length, in any of the forms that can hold it; rarely a lie.
    fn head(&mut self, length: usize, forms: [(u8, usize); 2], form_of_32: u8) -> Option<()> {
        let told = if self.one_in(256)? { below(self.driver, 1 << 32)? } else { length };
        let [(fixed, fixed_end), (form_of_16, end_of_16)] = forms;
        match self.byte()? % 8 {
            0 => self.bytes.extend([&[form_of_32][..], &(told as u32).to_be_bytes()].concat()),
            1 if told < end_of_16 => {
                self.bytes.extend([&[form_of_16][..], &(told as u16).to_be_bytes()].concat());
            }
            _ if told < fixed_end => self.bytes.push(fixed | told as u8),
            _ if told < end_of_16 => {
                self.bytes.extend([&[form_of_16][..], &(told as u16).to_be_bytes()].concat());
            }
            _ => self.bytes.extend([&[form_of_32][..], &(told as u32).to_be_bytes()].concat()),
        }
        Some(())
    }

    /// What is wanted, and rarely anything else.
    fn want(&mut self, want: Want) -> Option<()> {
        if self.one_in(192)? { self.value(0) } else { self.exactly(want) }
    }

    fn exactly(&mut self, want: Want) -> Option<()> {
        match want {
            Any if self.one_in(6)? => self.value(0),
            Any => self.nil(),
            Optional(_) if self.one_in(3)? => self.nil(),
            Optional(want) => self.exactly(*want),
            Text => self.text(),
            Bool => {
                let bit = self.byte()? & 1;
                self.push(0xc2 | bit)
            }
            FinishReason => {
                let code = self.byte()? % 5;
                self.push(code)
            }
            StopReason if self.one_in(2)? => self.text(),
            StopReason | Signed => self.signed(),
            Unsigned => self.unsigned(),
            Float => self.float(),
            Tokens => self.list(Self::token),
            Ids => self.list(Self::text),
            Events => self.list(Self::event),
            Outputs => self.list(|grower| grower.fields(&OUTPUT, &OUTPUT_LENGTHS)),
            Headers => self.map(|grower| {
                grower.text()?;
                grower.text()
            }),
            Params => self.map(Self::param),
        }
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        self.bytes.push(byte);
        Some(())
    }

    fn nil(&mut self) -> Option<()> {
        self.push(0xc0)
    }

    /// A few entries; now and then thousands of the same.
    fn list(&mut self, entry: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        let (length, repeats) = self.length()?;
        self.head(length * repeats, [(0x90, 16), (0xdc, 1 << 16)], 0xdd)?;
        self.entries(length, repeats, entry)
    }

    fn map(&mut self, entry: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        let (length, repeats) = self.length()?;
        self.head(length * repeats, [(0x80, 16), (0xde, 1 << 16)], 0xdf)?;
        self.entries(length, repeats, entry)
    }

    fn length(&mut self) -> Option<(usize, usize)> {
        if self.bytes.len() > BYTES_MAX {
            return Some((0, 0));
        }
        let many = self.one_in(48)?;
        Some(if many { (1, below(self.driver, 3_000)?) } else { (below(self.driver, 5)?, 1) })
    }

    fn entries(
        &mut self,
        length: usize,
        repeats: usize,
        entry: impl Fn(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let start = self.bytes.len();
        for _ in 0..length {
            entry(self)?;
        }
        let once = self.bytes[start..].to_vec();
        let repeats = repeats.min(BYTES_MAX / once.len().max(1));
        if repeats != 1 {
            self.bytes.truncate(start);
            self.bytes.extend(once.repeat(repeats));
        }
        Some(())
    }

    /// A map of the two known keys in either order, sometimes with another or without one.
    fn event(&mut self) -> Option<()> {
        let keys: &[&[u8]] = match self.byte()? % 32 {
            0 => &[b"type"],
            1 => &[b"type", b"more", b"timestamp"],
            2 => &[b"timestamp", b"type", b"type"],
            3..16 => &[b"timestamp", b"type"],
            _ => &[b"type", b"timestamp"],
        };
        self.bytes.push(0x80 | keys.len() as u8);
        for key in keys {
            self.bytes.push(0xa0 | key.len() as u8);
            self.bytes.extend(*key);
            match *key {
                b"type" => {
                    let code = self.byte()? % 4;
                    self.push(code.max(1))?;
                }
                b"timestamp" => self.float()?,
                _ => self.value(0)?,
            }
        }
        Some(())
    }

    fn param(&mut self) -> Option<()> {
        let (key, want): (&[u8], Want) = match self.byte()? % 8 {
            0 | 1 => (b"max_tokens", Optional(&Unsigned)),
            2 => (b"min_tokens", Unsigned),
            3 => (b"ignore_eos", Bool),
            4 => (b"stop_token_ids", Optional(&Tokens)),
            5 => (b"temperature", Float),
            _ => (b"seed", Any),
        };
        self.bytes.push(0xa0 | key.len() as u8);
        self.bytes.extend(key);
        self.want(want)
    }
}
