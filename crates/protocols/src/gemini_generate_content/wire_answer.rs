//! Types of answers: a response, or one chunk of a stream.

use super::wire::Content;
use crate::wire::wire;
use throughline_format::Json;

wire! {
    /// A response, or a chunk.
    pub struct Response {
        /// The answers.
        candidates?: Vec<Candidate>,
        /// What became of the prompt.
        prompt_feedback = "promptFeedback"?: PromptFeedback,
        /// Counters.
        usage_metadata = "usageMetadata"?: Json,
        /// The model that answered.
        model_version = "modelVersion"?: String,
        /// The provider's ID for support.
        response_id = "responseId"?: String,
        /// An error in the place of an answer.
        error?: Json,
    }
}
wire! {
    /// One answer.
    pub struct Candidate {
        /// Which one; absent is the first.
        index?: u64,
        /// What it says.
        content?: Content,
        /// Why it ended.
        finish_reason = "finishReason"?: String,
        /// The same in words.
        finish_message = "finishMessage"?: String,
        /// Safety ratings.
        safety_ratings = "safetyRatings"?: Json,
        /// What is recited.
        citation_metadata = "citationMetadata"?: Json,
        /// What it rests on.
        grounding_metadata = "groundingMetadata"?: Json,
        /// What became of addresses in the prompt.
        url_context_metadata = "urlContextMetadata"?: Json,
        /// Token probabilities.
        logprobs_result = "logprobsResult"?: Json,
        /// Goes on with a cut answer.
        continuation_token = "continuationToken"?: String,
    }
}
wire! {
    /// What became of the prompt.
    pub struct PromptFeedback {
        /// Why it was refused.
        block_reason = "blockReason"?: String,
        /// The same in words.
        block_reason_message = "blockReasonMessage"?: String,
    }
}
wire! {
    /// What an answer rests on.
    pub struct Grounding {
        /// Queries.
        web_search_queries = "webSearchQueries"?: Vec<String>,
        /// Queries for images.
        image_search_queries = "imageSearchQueries"?: Vec<String>,
        /// Queries of a retrieval.
        retrieval_queries = "retrievalQueries"?: Vec<String>,
        /// Sources.
        grounding_chunks = "groundingChunks"?: Vec<GroundingChunk>,
        /// Which words rest on which sources.
        grounding_supports = "groundingSupports"?: Vec<GroundingSupport>,
        /// What is to be shown beside the answer.
        search_entry_point = "searchEntryPoint"?: Json,
    }
}
wire! {
    /// One source.
    pub struct GroundingChunk {
        /// A page.
        web?: SourceChunk,
        /// A document.
        retrieved_context = "retrievedContext"?: SourceChunk,
        /// A place.
        maps?: SourceChunk,
        /// An image.
        image?: SourceChunk,
    }
}
wire! {
    /// A source of any kind.
    pub struct SourceChunk {
        /// Address.
        uri?: String,
        /// Address of the page of an image.
        source_uri = "sourceUri"?: String,
        /// Address of an image.
        image_uri = "imageUri"?: String,
        /// Title.
        title?: String,
        /// Words.
        text?: String,
        /// Store of the document.
        file_search_store = "fileSearchStore"?: String,
        /// Page of the document.
        page_number = "pageNumber"?: u64,
    }
}
wire! {
    /// Words that rest on sources.
    pub struct GroundingSupport {
        /// The words.
        segment?: Segment,
        /// The sources.
        grounding_chunk_indices = "groundingChunkIndices"?: Vec<u64>,
        /// How sure the vendor is of each.
        confidence_scores = "confidenceScores"?: Vec<f64>,
    }
}
wire! {
    /// Words of the answer: UTF-8 bytes of one part, the end exclusive.
    pub struct Segment {
        /// Part of the content; absent is the first.
        part_index = "partIndex"?: u64,
        /// First byte; absent is 0.
        start_index = "startIndex"?: u64,
        /// Byte after the last.
        end_index = "endIndex"?: u64,
        /// The words.
        text?: String,
    }
}
wire! {
    /// What is recited; Vertex says `citations`.
    pub struct Citations {
        /// Sources.
        citation_sources = "citationSources"?: Vec<CitationSource>,
        /// The same on Vertex.
        citations?: Vec<CitationSource>,
    }
}
wire! {
    /// A recited source.
    pub struct CitationSource {
        /// First byte; absent is 0.
        start_index = "startIndex"?: u64,
        /// Byte after the last.
        end_index = "endIndex"?: u64,
        /// Address.
        uri?: String,
        /// Title.
        title?: String,
        /// Licence.
        license?: String,
        /// When it was published.
        publication_date = "publicationDate"?: PublicationDate,
    }
}
wire! {
    /// A date, as far as it is known.
    pub struct PublicationDate {
        /// Year.
        year?: u64,
        /// Month.
        month?: u64,
        /// Day.
        day?: u64,
    }
}
wire! {
    /// What became of addresses.
    pub struct UrlContext {
        /// One by one.
        url_metadata = "urlMetadata"?: Vec<Json>,
    }
}
wire! {
    /// What became of one address.
    pub struct UrlMetadata {
        /// The address.
        retrieved_url = "retrievedUrl"?: String,
        /// `URL_RETRIEVAL_STATUS_…`
        url_retrieval_status = "urlRetrievalStatus"?: String,
    }
}
wire! {
    /// Token probabilities.
    pub struct Logprobs {
        /// The tokens that were chosen.
        chosen_candidates = "chosenCandidates"?: Vec<TokenLogprob>,
        /// Their alternatives.
        top_candidates = "topCandidates"?: Vec<TopCandidates>,
    }
}
wire! {
    /// Alternatives at one place.
    pub struct TopCandidates {
        /// The alternatives.
        candidates?: Vec<TokenLogprob>,
    }
}
wire! {
    /// A token with its probability.
    pub struct TokenLogprob {
        /// The token.
        token?: String,
        /// Natural logarithm of its probability.
        log_probability = "logProbability"?: f64,
    }
}
wire! {
    /// A safety rating.
    pub struct SafetyRating {
        /// `HARM_CATEGORY_…`
        category?: String,
        /// How likely.
        probability?: String,
        /// The same as a number.
        probability_score = "probabilityScore"?: f64,
        /// How bad.
        severity?: String,
        /// The same as a number.
        severity_score = "severityScore"?: f64,
        /// Whether it was the reason to block.
        blocked?: bool,
        /// Threshold that was overruled.
        overwritten_threshold = "overwrittenThreshold"?: String,
    }
}
wire! {
    /// Counters; every one is absent when it is 0 or not known.
    pub struct Usage {
        /// Input, cached tokens included.
        prompt_token_count = "promptTokenCount"?: f64,
        /// Input from a cache.
        cached_content_token_count = "cachedContentTokenCount"?: f64,
        /// Output without thoughts.
        candidates_token_count = "candidatesTokenCount"?: f64,
        /// Thoughts.
        thoughts_token_count = "thoughtsTokenCount"?: f64,
        /// Prompts of tools.
        tool_use_prompt_token_count = "toolUsePromptTokenCount"?: f64,
        /// All together.
        total_token_count = "totalTokenCount"?: f64,
        /// Input by modality.
        prompt_tokens_details = "promptTokensDetails"?: Vec<ModalityCount>,
        /// Cached input by modality.
        cache_tokens_details = "cacheTokensDetails"?: Vec<ModalityCount>,
        /// Output by modality.
        candidates_tokens_details = "candidatesTokensDetails"?: Vec<ModalityCount>,
        /// Prompts of tools by modality.
        tool_use_prompt_tokens_details = "toolUsePromptTokensDetails"?: Vec<ModalityCount>,
        /// Class of service.
        service_tier = "serviceTier"?: String,
    }
}
wire! {
    /// Tokens of one modality.
    pub struct ModalityCount {
        /// `TEXT`, `IMAGE`, …
        modality?: String,
        /// Tokens.
        token_count = "tokenCount"?: f64,
    }
}
wire! {
    /// An error, as google.rpc.Status.
    pub struct Status {
        /// HTTP status.
        code?: Json,
        /// In words.
        message?: String,
        /// gRPC status word.
        status?: String,
        /// Details of several types.
        details?: Vec<Json>,
    }
}
