# The image of the operator: docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 .
# Built on the machine's own platform and cross-compiled: Go needs no emulation for that.
FROM --platform=$BUILDPLATFORM golang:1.26 AS builder
ARG TARGETOS
ARG TARGETARCH
WORKDIR /workspace

# Modules first: they change less often than the code, so this layer is mostly cached.
COPY go.mod go.sum ./
RUN go mod download

COPY api api
COPY cmd/trellis-manager cmd/trellis-manager
COPY internal internal
# Static, because the final image has no C library; -trimpath, so that the same source gives the same binary on any machine.
RUN CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} go build -trimpath -o trellis-manager ./cmd/trellis-manager

FROM gcr.io/distroless/static:nonroot
ARG VERSION=dev
LABEL org.opencontainers.image.title="Trellis" \
      org.opencontainers.image.description="Packs inference graphs into the network domains of a Kubernetes cluster" \
      org.opencontainers.image.source="https://github.com/trellis-k8s/trellis" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY LICENSE /LICENSE
COPY --from=builder /workspace/trellis-manager /trellis-manager
# By number: the kubelet checks runAsNonRoot against it. The same as in the manifests.
USER 65532:65532
ENTRYPOINT ["/trellis-manager"]
