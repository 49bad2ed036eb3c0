//! Engine-core requests and outputs as MessagePack, byte-compatible with vLLM-Omni.
