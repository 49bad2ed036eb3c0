//! Single values: mostly in one of the forms that MessagePack has for them, none of them always the shortest.

use std::ops::Bound;

use bolero::Driver;

use super::{BYTES_MAX, DEPTH_MAX, Grower, Want};
use crate::message::below;

impl<D: Driver> Grower<'_, D> {
    pub(super) fn text(&mut self) -> Option<()> {
        let length = below(self.driver, 40)?;
        let mut text: Vec<u8> = (0..length).map(|_| self.byte()).collect::<Option<_>>()?;
        if !self.one_in(64)? {
            text.iter_mut().for_each(|byte| *byte &= 0x7f);
        }
        match self.byte()? % 4 {
            0 => self.bytes.extend([0xd9, length as u8]),
            1 => self.bytes.extend([0xda, 0, length as u8]),
            _ if length < 32 => self.bytes.push(0xa0 | length as u8),
            _ => self.bytes.extend([0xdb, 0, 0, 0, length as u8]),
        }
        self.bytes.extend(text);
        Some(())
    }

    /// A marker with its big-endian number of random bytes.
    fn number(&mut self, marker: u8, bytes: usize) -> Option<()> {
        self.bytes.push(marker);
        for _ in 0..bytes {
            let byte = self.byte()?;
            self.bytes.push(byte);
        }
        Some(())
    }

    pub(super) fn unsigned(&mut self) -> Option<()> {
        match self.byte()? % 8 {
            0 => self.number(0xcc, 1),
            1 => self.number(0xcd, 2),
            2 => self.number(0xce, 4),
            3 => self.number(0xcf, 8),
            _ => {
                let fixed = self.byte()? & 0x7f;
                self.push(fixed)
            }
        }
    }

    pub(super) fn signed(&mut self) -> Option<()> {
        match self.byte()? % 8 {
            0 => self.number(0xd0, 1),
            1 => self.number(0xd1, 2),
            2 => self.number(0xd2, 4),
            3 => self.number(0xd3, 8),
            4 => {
                let fixed = self.byte()? | 0xe0;
                self.push(fixed)
            }
            _ => self.unsigned(),
        }
    }

    pub(super) fn token(&mut self) -> Option<()> {
        match self.byte()? % 4 {
            0 => self.number(0xcd, 2),
            1 => self.number(0xce, 4),
            _ => self.number(0xcc, 1),
        }
    }

    pub(super) fn float(&mut self) -> Option<()> {
        match self.byte()? % 8 {
            0 => self.number(0xca, 4),
            1 => self.signed(),
            _ => {
                let seconds = match self.byte()? % 4 {
                    0 => f64::from_bits(self.driver.gen_u64(Bound::Unbounded, Bound::Unbounded)?),
                    1 => f64::NAN,
                    _ => f64::from(self.driver.gen_u32(Bound::Unbounded, Bound::Unbounded)?) / 1e6,
                };
                self.bytes.push(0xcb);
                self.bytes.extend(seconds.to_be_bytes());
                Some(())
            }
        }
    }

    /// Any value.
    pub(super) fn value(&mut self, depth: usize) -> Option<()> {
        let containers = if depth < DEPTH_MAX && self.bytes.len() < BYTES_MAX { 2 } else { 0 };
        match below(self.driver, 9 + containers)? {
            0 => self.nil(),
            1 => self.text(),
            2 => self.signed(),
            3 => self.float(),
            4 => self.exactly(Want::Bool),
            5 => {
                let length = below(self.driver, 300)? as u16;
                self.bytes.push(0xc5);
                self.bytes.extend(length.to_be_bytes());
                self.bytes.resize(self.bytes.len() + usize::from(length), 0xc1);
                Some(())
            }
            // Extensions: of fixed sizes, and of a told one.
            6 => {
                let power = below(self.driver, 5)?;
                self.number(0xd4 + power as u8, 1 + (1 << power))
            }
            7 => {
                let length = self.byte()? % 20;
                self.bytes.extend([0xc7, length]);
                self.number(0x05, length.into())
            }
            // Any marker, the reserved one among them.
            8 => {
                let marker = self.byte()?;
                self.number(marker, usize::from(marker % 5))
            }
            9 => self.list(|grower| grower.value(depth + 1)),
            _ => self.map(|grower| {
                grower.value(depth + 1)?;
                grower.value(depth + 1)
            }),
        }
    }
}
