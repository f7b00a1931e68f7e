# What a deployment is made of. Only the account and the store's keys have no default.

variable "account_id" {
  description = "Cloudflare's id of the account."
  type        = string

  validation {
    condition     = can(regex("^[0-9a-f]{32}$", var.account_id))
    error_message = "An account id is 32 hexadecimal digits; `npx wrangler whoami` shows it."
  }
}

variable "name" {
  description = "Of the Worker, as in wrangler.toml, and the beginning of other names."
  type        = string
  default     = "edgetier"

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,40}[a-z0-9]$", var.name))
    error_message = "Small letters, digits and '-', 2 to 42 of them, as Workers and buckets take them."
  }
}

variable "store" {
  description = "The model store. `r2` makes a bucket; `s3` takes one that is there, such as that of ./s3."
  type = object({
    kind       = string
    bucket     = optional(string)
    endpoint   = optional(string)
    region     = optional(string, "auto")
    location   = optional(string)
    access_key = string
  })

  validation {
    condition     = contains(["r2", "s3"], var.store.kind)
    error_message = "The kind is r2 or s3."
  }
  validation {
    condition     = var.store.kind == "r2" || (var.store.bucket != null && can(regex("^https://[^/]+$", coalesce(var.store.endpoint, "-"))))
    error_message = "A store of the kind s3 needs its bucket, and its endpoint as https://<host>, without the bucket."
  }
}

variable "store_secret_key" {
  description = "Secret access key of the store; for R2 of an API token with Object Read & Write on the bucket."
  type        = string
  sensitive   = true

  validation {
    condition     = length(var.store_secret_key) >= 16
    error_message = "That is too short for a secret access key."
  }
}

variable "cache" {
  description = "The L2 cache: where it is written, and where it is read as well. Null leaves it out."
  type = object({
    primary_region = optional(string, "eu-west-1")
    read_regions   = optional(set(string), [])
  })
  default = {}

  validation {
    condition     = var.cache == null ? true : !contains(var.cache.read_regions, var.cache.primary_region)
    error_message = "The primary region is read as well: it is not one of read_regions."
  }
}

variable "hostname" {
  description = "Of the edge, such as api.example.com. The Worker must have been deployed once: null until then."
  type        = string
  default     = null

  validation {
    condition     = var.hostname == null ? true : can(regex("^([a-z0-9-]+\\.)+[a-z]{2,}$", var.hostname))
    error_message = "A host name, without https:// and without a path."
  }
}

variable "zone_id" {
  description = "Cloudflare's id of the zone that the host name is in."
  type        = string
  default     = null

  validation {
    condition     = var.hostname == null || can(regex("^[0-9a-f]{32}$", coalesce(var.zone_id, "-")))
    error_message = "With a host name, the zone's id: 32 hexadecimal digits."
  }
}

variable "region" {
  description = "The heavy tier, on a Kubernetes cluster that is there. Null leaves it out: the edge answers alone."
  type = object({
    kubeconfig = optional(string, "~/.kube/config")
    context    = string
    overlay    = optional(string, "gpu")
    preload    = optional(list(string), [])
    url        = string
  })
  default = null

  validation {
    condition     = var.region == null ? true : contains(["cpu", "gpu"], var.region.overlay)
    error_message = "The overlay is cpu or gpu: a folder of infra/kubernetes/overlays."
  }
  validation {
    condition     = var.region == null ? true : can(regex("^https://[^/]+$", var.region.url))
    error_message = "The url is what the cluster's ingress serves the region at: https://<host>."
  }
}
