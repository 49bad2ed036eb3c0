use super::*;
use crate::pipeline_file::Pipeline;

#[test]
fn tokens_follow_the_chunks() {
    let pipeline = Pipeline::parse(
        r#"
        [[stage]]
        name = "thinker"
        scheduler = "ar"
        chunk_tokens = 8

        [[stage]]
        name = "talker"
        scheduler = "ar"
        gate = "async_chunk"
        tokens_per_input_token = 3
        chunk_tokens = 25

        [[stage]]
        name = "code2wav"
        scheduler = "generation"
        gate = "full_payload"
        "#,
        "test",
    )
    .unwrap();
    let request = NewRequest { request_id: "r".into(), prompt_tokens: 374, output_tokens: 44 };
    let tokens = |prompt, output| StageTokens { prompt, output };
    assert_eq!(
        stage_tokens(&request, pipeline.stages.iter()),
        [tokens(374, 44), tokens(8, 132), tokens(132, 132)]
    );
}

#[test]
fn ids_of_two_requests_with_one_client_id_differ() {
    assert_ne!(internal_id("same", 1), internal_id("same", 2));
    // The number stands first: a long id is cut at its end.
    assert_ne!(internal_id(&"x".repeat(300), 1), internal_id(&"x".repeat(300), 2));
}
