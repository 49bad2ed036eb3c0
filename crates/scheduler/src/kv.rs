//! KV blocks: counted, not addressed.

use crate::request::Request;

#[derive(Debug)]
pub(crate) struct KvBlocks {
    free: u32,
    block_size: u32,
    max_model_len: u32,
}

impl KvBlocks {
    pub(crate) const fn new(blocks: u32, block_size: u32, max_model_len: u32) -> Self {
        Self { free: blocks, block_size, max_model_len }
    }

    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that `request` still needs to hold `tokens` tokens.
    fn missing(&self, request: &Request, tokens: u32) -> u32 {
        tokens.min(self.max_model_len).div_ceil(self.block_size).saturating_sub(request.kv_blocks)
    }

    /// Whether `tokens` tokens of `request` would fit now.
    pub(crate) fn fits(&self, request: &Request, tokens: u32) -> bool {
        self.missing(request, tokens) <= self.free
    }

    /// Gives `request` room for `tokens` tokens altogether; all of it or nothing.
    pub(crate) fn allocate(&mut self, request: &mut Request, tokens: u32) -> bool {
        let missing = self.missing(request, tokens);
        if missing > self.free {
            return false;
        }
        self.free -= missing;
        request.kv_blocks += missing;
        true
    }

    pub(crate) fn release(&mut self, request: &mut Request) {
        self.free += std::mem::take(&mut request.kv_blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_whole_and_come_back() {
        let mut kv = KvBlocks::new(4, 16, 64);
        let (mut a, mut b) = (Request::for_test(), Request::for_test());
        assert!(kv.allocate(&mut a, 17) && kv.free() == 2);
        assert!(kv.allocate(&mut a, 32) && kv.free() == 2, "the second block had room");
        assert!(kv.fits(&b, 32) && !kv.fits(&b, 33));
        assert!(!kv.allocate(&mut b, 33) && b.kv_blocks == 0 && kv.free() == 2);
        assert!(kv.allocate(&mut a, 1000), "nothing is longer than the model");
        assert_eq!((a.kv_blocks, kv.free()), (4, 0));
        kv.release(&mut a);
        assert_eq!((a.kv_blocks, kv.free()), (0, 4));
    }
}
