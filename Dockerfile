# Built from a clone: docker build -t bounceback_exporter .
#
# The result is one static binary that runs as nobody. It has no shell, and no
# health check either: whoever runs it asks /-/healthy from outside.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -o /bounceback_exporter \
    -ldflags "-s -w -X github.com/prometheus/common/version.Version=${VERSION}" .

FROM scratch
COPY --from=build /bounceback_exporter /bounceback_exporter
COPY LICENSE /LICENSE
USER 65534:65534
EXPOSE 10501
ENTRYPOINT ["/bounceback_exporter"]
