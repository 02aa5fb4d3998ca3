"""The URLs of access reviews."""

from django.urls import path

from authzconsole.web.reviews.review_pages import (
    AnswerReview,
    CancelReview,
    FinishReview,
    NewReview,
    RetryReview,
    SignOffReview,
    review_bundle,
    review_count,
    review_file,
    review_list,
    review_page,
    reviewer_list,
)

urlpatterns = [
    path("reviews/", review_list, name="reviews"),
    path("reviews/count", review_count, name="review-count"),
    path("reviews/new", NewReview.as_view(), name="review-new"),
    path("reviews/<int:pk>/", review_page, name="review"),
    path("reviews/<int:pk>/reviewers", reviewer_list, name="review-reviewers"),
    path("reviews/<int:pk>/answers", AnswerReview.as_view(), name="review-answer"),
    path("reviews/<int:pk>/sign-off", SignOffReview.as_view(), name="review-sign-off"),
    path("reviews/<int:pk>/finish", FinishReview.as_view(), name="review-finish"),
    path("reviews/<int:pk>/cancel", CancelReview.as_view(), name="review-cancel"),
    path("reviews/<int:pk>/retry", RetryReview.as_view(), name="review-retry"),
    path("reviews/<int:pk>/items.<slug:extension>", review_file, name="review-file"),
    path("reviews/<int:pk>/evidence.zip", review_bundle, name="review-bundle"),
]
