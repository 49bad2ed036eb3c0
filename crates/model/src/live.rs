//! A bounded table for the requests in flight.

/// Slots of a [`LiveTable`] unless said otherwise.
pub const LIVE_SLOTS_DEFAULT: usize = 65_536;

/// Names one entry of a [`LiveTable`]. It goes stale with its entry: a slot used again has another
/// handle, so a late event of a finished request can't reach its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

impl Handle {
    /// The handle as one integer, for callers that keep it on a foreign object.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The handle with those bits. Made-up bits name no entry.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// At most `limit` live entries, found by handle in constant time. Memory grows with the most
/// entries that were ever live at once, never beyond the limit.
#[derive(Debug)]
pub struct LiveTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    limit: u32,
}

impl<T> LiveTable<T> {
    /// An empty table of at most `limit` entries (at most `u32::MAX`).
    pub fn new(limit: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit: u32::try_from(limit).unwrap_or(u32::MAX) }
    }

    /// Puts a value in.
    ///
    /// # Errors
    /// Hands the value back when the table is full.
    pub fn insert(&mut self, value: T) -> Result<Handle, T> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            return Ok(Handle { index, generation: slot.generation });
        }
        // The vector never holds more than `limit` slots, so its length fits in u32.
        let index = self.slots.len() as u32;
        if index >= self.limit {
            return Err(value);
        }
        self.slots.push(Slot { generation: 1, value: Some(value) });
        Ok(Handle { index, generation: 1 })
    }

    /// The entry, unless it has ended.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation == handle.generation { slot.value.as_mut() } else { None }
    }

    /// Takes the entry out and frees its slot.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation != handle.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.index);
        Some(value)
    }

    /// How many entries are live.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The live entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let handle = Handle { index: index as u32, generation: slot.generation };
            slot.value.as_ref().map(|value| (handle, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_tables_hand_the_value_back() {
        let mut table = LiveTable::new(2);
        let a = table.insert("a").unwrap();
        table.insert("b").unwrap();
        assert_eq!(table.insert("c"), Err("c"));
        assert_eq!(table.remove(a), Some("a"));
        let c = table.insert("c").unwrap();
        assert_eq!(table.len(), 2);
        assert_ne!(a, c, "a slot used again has another handle");
        assert_eq!(table.get_mut(a), None);
        assert_eq!(table.remove(a), None);
        assert_eq!(table.get_mut(c), Some(&mut "c"));
    }

    #[test]
    fn handles_survive_as_bits_and_made_up_ones_name_nothing() {
        let mut table = LiveTable::new(4);
        let a = table.insert(7).unwrap();
        assert_eq!(Handle::from_bits(a.to_bits()), a);
        for bits in [0, 1, 5 << 32, u64::MAX] {
            assert_eq!(table.get_mut(Handle::from_bits(bits)), None);
        }
        assert_eq!(table.iter().map(|(h, v)| (h, *v)).collect::<Vec<_>>(), [(a, 7)]);
        assert!(!table.is_empty());
    }
}
